"""Which tickets, and which connections of a cluster's ticket, are above their share."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slackwater.bus.access.accounts import CLUSTER
from slackwater.bus.access.authority import AccessAuthority
from slackwater.bus.access.ticket_floods import (
    ADDRESS_CONNECTIONS,
    CONNECTIONS,
    MESSAGES,
    OPEN_SECONDS,
    TicketConnection,
    TicketExcess,
    excess_of,
)
from slackwater.bus.access.tokens import claims_of, signed

ONE = TicketConnection(1, "UA", "n1", "10.0.0.1", 1, 0.1)
SHARED = replace(ONE, ticket="UC", name=CLUSTER)


def several(connection: TicketConnection, number: int) -> list[TicketConnection]:
    return [replace(connection, number=place, open_seconds=place / 1000) for place in range(number)]


@given(st.lists(st.sampled_from([ONE, replace(ONE, ticket="UB", name="n2")]), max_size=CONNECTIONS))
def test_agents_that_ask_once_are_within_their_share(connections: list[TicketConnection]) -> None:
    assert excess_of([*connections, SHARED]) == TicketExcess()


def test_a_ticket_has_a_share_of_its_own() -> None:
    other = replace(ONE, ticket="UB", name="n2")
    excess = excess_of([*several(ONE, CONNECTIONS + 1), other])
    assert {ticket: name for ticket, (name, _) in excess.tickets.items()} == {"UA": "n1"}
    assert not excess.connections
    assert set(excess_of([replace(ONE, messages=MESSAGES + 1), other]).tickets) == {"UA"}


def test_a_connection_that_stays_open_is_closed() -> None:
    assert excess_of([replace(ONE, open_seconds=OPEN_SECONDS + 1)]) == TicketExcess({}, (1,))


def test_of_a_clusters_ticket_the_oldest_connections_of_an_address_are_closed() -> None:
    excess = excess_of([*several(SHARED, ADDRESS_CONNECTIONS + 2), replace(SHARED, number=999, address="10.0.0.2")])
    assert excess == TicketExcess({}, (ADDRESS_CONNECTIONS, ADDRESS_CONNECTIONS + 1))
    assert excess_of([replace(SHARED, messages=MESSAGES + 1)]) == TicketExcess({}, (1,))


def test_refused_tickets_are_in_the_account_until_their_time() -> None:
    now = 1000.0
    authority = AccessAuthority(AccessAuthority.of_seed(AccessAuthority.new_seed()).operator, lambda: now)
    account = signed(authority.operator, authority.account("ENROLMENT").public, "ENROLMENT", {"limits": {"conn": 1}}, 7)
    refused = authority.with_refused_tickets(account, {"UA": 1060, "UB": 1030})
    assert claims_of(refused)["nats"] == {"limits": {"conn": 1}, "revocations": {"UA": 1060, "UB": 1030}}
    assert authority.with_refused_tickets(refused, {}) == refused
    now = 1030.0
    assert claims_of(authority.with_refused_tickets(refused, {}))["nats"]["revocations"] == {"UA": 1060}
    now = 1060.0
    assert claims_of(authority.with_refused_tickets(refused, {}))["nats"] == {"limits": {"conn": 1}}
