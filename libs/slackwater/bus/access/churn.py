"""Which agents keep the broker busy with what it counts as no message: PINGs, subscriptions, connections. Pure.

The broker counts none of these by account. They show in what it says of a connection: answers wait to be sent that are
no messages (PONG and refusals), or it was active without a message (subscriptions made or ended).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.bus.consume.token_buckets import TokenBuckets

SIGNS_AT_ONCE, SIGN_SECONDS = 6, 10.0
"""Per account: answers of the broker in which one of its connections does work without messages; the burst, then one in
SIGN_SECONDS. An agent subscribes at its start, in one or two of them, and sends a PING in two minutes.
"""
CONNECTIONS_AT_ONCE, CONNECTION_SECONDS = 60, 0.5
"""Per account: the burst, then one new connection in CONNECTION_SECONDS. An agent that loses its link again and again
opens two in two seconds.
"""
SLACK_BYTES, MESSAGE_BYTES = 4096, 512
"""What may wait for a connection beside the messages to it, and beside the bytes of each."""
FORGET_SECONDS = 60.0
MOST_ACCOUNTS = 65_536


@dataclass(frozen=True, slots=True)
class AgentConnection:
    """What a server says of a connection. `out_bytes` and `waiting_bytes` are what was sent to it, and what still
    waits; `active_at` is when it last had a message or changed a subscription.
    """

    number: int
    account: str
    in_messages: int
    out_messages: int
    out_bytes: int
    waiting_bytes: int
    active_at: datetime


@dataclass(frozen=True, slots=True)
class Churn:
    """An account that works the broker without messages, and how."""

    account: str
    reason: str

    def __str__(self) -> str:
        return self.reason


class ChurnWatch:
    """Compares each connection with what its server said of it before."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], tuple[AgentConnection, float]] = {}
        self._signs = TokenBuckets[str](SIGNS_AT_ONCE, SIGN_SECONDS, MOST_ACCOUNTS)
        self._connections = TokenBuckets[str](CONNECTIONS_AT_ONCE, CONNECTION_SECONDS, MOST_ACCOUNTS)

    def churning(self, server: str, connections: Sequence[AgentConnection], at_seconds: float) -> Sequence[Churn]:
        """Returns the accounts of which too many answers in a row show work without messages."""
        signs: dict[str, str] = {}
        for connection in connections:
            key = server, connection.number
            last = self._last.get(key)
            self._last[key] = connection, at_seconds
            if last is not None and (sign := _sign(last[0], connection)):
                signs[connection.account] = sign
        if len(self._last) > len(connections):
            before = at_seconds - FORGET_SECONDS
            self._last = {key: seen for key, seen in self._last.items() if seen[1] >= before}
        return [Churn(account, sign) for account, sign in signs.items() if not self._signs.acquire(account, at_seconds)]

    def connected(self, account: str, at_seconds: float) -> Churn | None:
        """Returns why an account is held that has one more connection."""
        if self._connections.acquire(account, at_seconds):
            return None
        per_second = round(1 / CONNECTION_SECONDS)
        return Churn(account, f"more than {CONNECTIONS_AT_ONCE} connections at once, then {per_second} a second")


def _sign(last: AgentConnection, now: AgentConnection) -> str:
    """Returns what a connection did without messages since it was last seen; empty: nothing."""
    messages = now.out_messages - last.out_messages
    sent = now.out_bytes - last.out_bytes + MESSAGE_BYTES * messages
    if now.waiting_bytes - last.waiting_bytes > sent + SLACK_BYTES:
        return f"{now.waiting_bytes} bytes of answers to PINGs or to what is refused wait for a connection"
    if now.active_at > last.active_at and messages == 0 and now.in_messages == last.in_messages:
        return "a connection makes and ends subscriptions again and again"
    return ""
