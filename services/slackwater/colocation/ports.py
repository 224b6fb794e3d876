"""What colocation needs from a store: one state per node, changed by one writer at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from slackwater.colocation.domain.node import NodeState, PoolTotals
from slackwater.colocation.domain.strategy import Strategy
from slackwater.events.envelope import Event


@dataclass(frozen=True, slots=True)
class Followed:
    """The strategy that a node follows, and what it was merged from, the weakest first (see ResourcesOffered).

    `reason` says why it is not the one which the node's own words ask for; empty where it is. `accepted_at` is when the
    youngest of its documents was stored, None where that is not known.
    """

    strategy: Strategy
    sources: tuple[str, ...]
    reason: str = ""
    accepted_at: datetime | None = field(default=None, compare=False)


class Strategies(Protocol):
    """Which strategy each node follows now. Asked with every event: it answers from memory."""

    def of(self, state: NodeState) -> Followed: ...


class Found(StrEnum):
    """What became of a node when every offer was looked at."""

    SKIPPED = "skipped"
    SAME = "same"
    FOLLOWED = "followed"
    """It was decided by another strategy than the one in force; that is no damage."""
    AGED = "aged"
    """Time alone has changed what is said of it, and the timer does not look after offers of nothing."""
    HEALED = "healed"


class ColocationTransaction(Protocol):
    """One transaction: all of it happens on leaving its context, or nothing."""

    async def expect(self, consumer: str, news: Sequence[tuple[str, str]]) -> None:
        """These events (id, node) are handled next: what is asked of them one by one is fetched for all at once."""
        ...

    async def first_time(self, consumer: str, event_id: str) -> bool:
        """Note that `consumer` handles this event; False if it had handled it before."""
        ...

    async def expect_nodes(self, nodes: Sequence[str]) -> None:
        """The states of these are asked for next: they are fetched, and locked, all at once."""
        ...

    async def load(self, node: str) -> NodeState:
        """The node's state, locked until the transaction ends; an empty one for a node never heard of. Raises
        Unreadable for one that is stored and cannot be read, which is in quarantine from then on."""
        ...

    async def save(self, state: NodeState) -> None: ...

    async def publish(self, event: Event[Any]) -> None:
        """Put an event into the outbox."""
        ...


class ColocationStore(Protocol):
    """Raises Unavailable while the store does not answer."""

    def begin(self) -> AbstractAsyncContextManager[ColocationTransaction]: ...

    async def totals(self) -> Sequence[PoolTotals]:
        """What is offered now, by pool."""
        ...

    async def at_rest(self, at_seconds: float) -> Sequence[str]:
        """The other nodes: those whose offer time alone has not changed by then."""
        ...

    async def states_of(self, nodes: Sequence[str]) -> Sequence[NodeState]:
        """As they are now, locked by nobody; without those that are not known."""
        ...

    async def ageing(self, at_seconds: float) -> Sequence[str]:
        """Nodes that offer something and whose offer has been due by then (seconds since 1970) to change by itself."""
        ...

    async def told_generation(self, node: str) -> int:
        """Of the offer that was told last, as far as that can be read; else 0."""
        ...


@dataclass(frozen=True, slots=True)
class Followers:
    """The nodes that follow a document: how many, how many of them have words of their own that cannot be used, and the
    first few of these by name, each with what is wrong."""

    nodes: int = 0
    bad: int = 0
    problems: tuple[tuple[str, str], ...] = ()


class TellingTransaction(Protocol):
    """One transaction on what was told of documents that cannot be used."""

    async def told(self) -> Mapping[str, str]:
        """By name of the document, the problem that was told last; only of those that have one."""
        ...

    async def tell(self, name: str, problem: str, event: Event[Any]) -> None:
        """Remember what is told now (empty: that it is usable again), and put the event into the outbox."""
        ...

    async def publish(self, event: Event[Any]) -> None:
        """Put an event into the outbox that nobody has to remember."""
        ...


class FollowerStore(Protocol):
    """Who follows which documents, and what was told of these. Raises Unavailable while the store does not answer."""

    async def followers(self, most: int) -> Mapping[str, Followers]:
        """By source without its generation (`cluster`, `pool/NAME`), naming at most so many nodes with problems."""
        ...

    async def following(self, after: str, limit: int) -> Sequence[NodeState]:
        """Described nodes whose names come after this one, in order: what each follows, and what that depends on (pool,
        words). The rest of these states is empty."""
        ...

    async def page(self, after: str, limit: int) -> Sequence[NodeState]:
        """States of nodes whose names come after this one, in order; nothing is locked."""
        ...

    def telling(self) -> AbstractAsyncContextManager[TellingTransaction]: ...
