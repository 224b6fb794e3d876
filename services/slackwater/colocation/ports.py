"""What colocation needs from a store: one state per node, changed by one writer at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from slackwater.colocation.domain.node import NodeState, PoolTotals
from slackwater.colocation.domain.strategy import Strategy
from slackwater.events.envelope import Event


@dataclass(frozen=True, slots=True)
class Followed:
    """The strategy that a node follows, and what it was merged from, the weakest first (see ResourcesOffered)."""

    strategy: Strategy
    sources: tuple[str, ...]


class Strategies(Protocol):
    """Which strategy each node follows now. Asked with every event: it answers from memory."""

    def of(self, state: NodeState) -> Followed: ...


class ColocationTransaction(Protocol):
    """One transaction: all of it happens on leaving its context, or nothing."""

    async def expect(self, consumer: str, news: Sequence[tuple[str, str]]) -> None:
        """These events (id, node) are handled next: what is asked of them one by one is fetched for all at once."""
        ...

    async def first_time(self, consumer: str, event_id: str) -> bool:
        """Note that `consumer` handles this event; False if it had handled it before."""
        ...

    async def load(self, node: str) -> NodeState:
        """The node's state, locked until the transaction ends; an empty one for a node never heard of."""
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

    async def ageing(self, at_seconds: float) -> Sequence[str]:
        """Nodes that offer something and whose offer has been due by then (seconds since 1970) to change by itself."""
        ...
