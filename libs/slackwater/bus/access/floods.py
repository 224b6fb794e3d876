"""Which agents send the broker more than any agent has reason to, and for how long each is held off it. Pure.

A reader leaves unread what is above an agent's rate (`bus.consume.agent_rates`), but by then the broker has stored it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slackwater.bus.consume.token_buckets import TokenBuckets

MESSAGES_AT_ONCE, MESSAGES_EVERY_SECONDS = 2000, 1 / 200
"""Per account: the burst, then one message per MESSAGES_EVERY_SECONDS. Requests count, too. An agent sends a few
messages a second; after an outage at most what a reader would read at once (200) of each of its types.
"""
BYTES_AT_ONCE, BYTES_EVERY_SECONDS = 32 * 1_048_576, 1 / (8 * 1_048_576)
"""Likewise in bytes: more than what readers read of all types together (1 MiB a second of each)."""
HOLD_SECONDS, MOST_HOLD_SECONDS = 30.0, 600.0
"""Of a first flood, doubled by each further one until none was seen for FORGIVE_SECONDS."""
FORGIVE_SECONDS = 3600.0
MOST_ACCOUNTS = 65_536


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one server has received from the clients of an account, and the bytes that went there or back, since it
    counts: a request of 300 bytes may be answered by all intents of a node."""

    messages: int
    size_bytes: int


class HoldCause(Protocol):
    """Why an account is held; its text is the reason."""

    @property
    def account(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Flood:
    """What an account sent above its rate, since it was looked at last."""

    account: str
    traffic: Traffic

    def __str__(self) -> str:
        return (
            f"{self.traffic.messages} messages with {self.traffic.size_bytes} bytes at once; an agent may send "
            f"{MESSAGES_AT_ONCE} or {BYTES_AT_ONCE} bytes at once, then {round(1 / MESSAGES_EVERY_SECONDS)} or "
            f"{round(1 / BYTES_EVERY_SECONDS)} bytes a second"
        )


class FloodWatch:
    """Compares what each server counts with what it counted before. The first count of an account says nothing: it may
    be that of a month.
    """

    def __init__(self) -> None:
        self._counted: dict[str, dict[str, Traffic]] = {}
        """The last count of each account, by server."""
        self._read_at: dict[str, float] = {}
        self._messages = TokenBuckets[str](MESSAGES_AT_ONCE, MESSAGES_EVERY_SECONDS, MOST_ACCOUNTS)
        self._bytes = TokenBuckets[str](BYTES_AT_ONCE, BYTES_EVERY_SECONDS, MOST_ACCOUNTS)

    def floods(self, server: str, counted: Mapping[str, Traffic], at_seconds: float) -> Sequence[Flood]:
        """Returns the accounts above their rate. Where less is counted than before, the account is loaded anew."""
        floods = []
        passed = at_seconds - self._read_at.get(server, at_seconds)
        self._read_at[server] = at_seconds
        for gone in [name for name, read_at in self._read_at.items() if read_at < at_seconds - FORGIVE_SECONDS]:
            del self._read_at[gone], self._counted[gone]  # a server that restarts has another id
        last_counts = self._counted.setdefault(server, {})
        most_messages = MESSAGES_AT_ONCE + passed / MESSAGES_EVERY_SECONDS
        most_bytes = BYTES_AT_ONCE + passed / BYTES_EVERY_SECONDS
        for account, traffic in counted.items():
            last = last_counts.get(account, traffic)
            last_counts[account] = traffic
            if traffic.messages < last.messages:
                last = Traffic(0, 0)
            sent = Traffic(traffic.messages - last.messages, traffic.size_bytes - last.size_bytes)
            within = (
                self._messages.acquire(account, at_seconds, sent.messages),
                self._bytes.acquire(account, at_seconds, sent.size_bytes),
                sent.messages <= most_messages,  # what is above the burst takes only the burst
                sent.size_bytes <= most_bytes,
            )
            if not all(within):
                floods.append(Flood(account, sent))
        return floods

    def drop(self, account: str) -> None:
        """Begin anew with an account, as with one that was never counted: what it sent before its hold is not held
        against it once more.
        """
        for counts in self._counted.values():
            counts.pop(account, None)


@dataclass(frozen=True, slots=True)
class Hold:
    """An account that may have no connection until `until`; `seconds` is how long that is."""

    until: float
    seconds: float
    reason: str


class Holds:
    """The accounts that are held, and how often each was of late. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._last: dict[str, Hold] = {}
        self._ended: set[str] = set()

    def begin(self, cause: HoldCause, now: float) -> Hold:
        """Hold an account. What arrives of it while it is held changes nothing."""
        last = self._last.get(cause.account)
        if last is not None and now < last.until:
            return last
        again = last is not None and now < last.until + FORGIVE_SECONDS
        seconds = min(2 * last.seconds, MOST_HOLD_SECONDS) if last is not None and again else HOLD_SECONDS
        hold = self._last[cause.account] = Hold(now + seconds, seconds, str(cause))
        self._ended.discard(cause.account)
        return hold

    def of(self, account: str, now: float) -> Hold | None:
        """Returns the hold of an account that is in force."""
        hold = self._last.get(account)
        return hold if hold is not None and now < hold.until else None

    def over(self, now: float) -> Sequence[str]:
        """Returns the accounts that are to be let in again; each until `let_in`."""
        return [account for account, hold in self._last.items() if hold.until <= now and account not in self._ended]

    def let_in(self, account: str) -> None:
        """Note that an account whose hold is over may connect again."""
        self._ended.add(account)
