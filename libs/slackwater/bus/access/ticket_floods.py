"""Which tickets take more of the account of agents without access than an agent has reason to. Pure.

An agent opens one connection with its ticket, asks once, and closes it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.bus.access.accounts import CLUSTER

CONNECTIONS, MESSAGES = 4, 8
"""Open connections of one ticket, and messages of each. The ticket of a cluster is that of all its agents: there, of
each connection alone.
"""
ADDRESS_CONNECTIONS = 250
"""Open connections of one address with the ticket of a cluster, a quarter of all: a translation of addresses may give
many agents one.
"""
OPEN_SECONDS = 30.0
"""Of one connection; an agent waits 5 s for its answer."""


@dataclass(frozen=True, slots=True)
class TicketConnection:
    """An open connection of the account. `ticket` is the public key of its ticket."""

    number: int
    ticket: str
    name: str
    address: str
    messages: int
    open_seconds: float


@dataclass(frozen=True, slots=True)
class TicketExcess:
    """Tickets to refuse, each with its name and the reason, and connections to close, by number."""

    tickets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    connections: tuple[int, ...] = ()


def excess_of(connections: Sequence[TicketConnection]) -> TicketExcess:
    """Returns what is above the share of a ticket or an address, of the open connections of one server."""
    open_by_ticket = Counter(connection.ticket for connection in connections)
    tickets: dict[str, tuple[str, str]] = {}
    closed: list[int] = []
    open_by_address: defaultdict[str, int] = defaultdict(int)
    for connection in sorted(connections, key=lambda connection: connection.open_seconds):
        is_shared, opened = connection.name == CLUSTER, open_by_ticket[connection.ticket]
        open_by_address[connection.address] += is_shared
        if not is_shared and opened > CONNECTIONS:
            tickets[connection.ticket] = connection.name, f"{opened} connections; {CONNECTIONS} are allowed"
        elif not is_shared and connection.messages > MESSAGES:
            reason = f"{connection.messages} messages on a connection; {MESSAGES} are allowed"
            tickets[connection.ticket] = connection.name, reason
        elif (
            connection.messages > MESSAGES
            or connection.open_seconds > OPEN_SECONDS
            or open_by_address[connection.address] > ADDRESS_CONNECTIONS
        ):
            closed.append(connection.number)
    return TicketExcess(tickets, tuple(closed))
