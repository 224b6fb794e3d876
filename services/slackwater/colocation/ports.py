"""Ports of colocation: the store of node states with one writer at a time, the strategies, and the followers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from slackwater.events.envelope import Event
from slackwater.offers.node import NodeState, PoolTotals
from slackwater.offers.strategy import Strategy


@dataclass(frozen=True, slots=True)
class FollowedStrategy:
    """The strategy that a node follows, and its sources, the weakest first (see ResourcesOffered).

    `reason` says why it is not the one that the node's annotations and labels ask for; empty if it is. `accepted_at` is
    when the newest of its documents was stored, None if unknown.
    """

    strategy: Strategy
    sources: tuple[str, ...]
    reason: str = ""
    accepted_at: datetime | None = field(default=None, compare=False)


class Strategies(Protocol):
    """Returns the strategy that each node follows now. It is called with every event, so it answers from memory."""

    def of(self, state: NodeState) -> FollowedStrategy: ...


class Found(StrEnum):
    """Result of the full pass for one node."""

    SKIPPED = "skipped"
    SAME = "same"
    FOLLOWED = "followed"
    """The last decision used another strategy than the one in force; this is not damage."""
    AGED = "aged"
    """Time alone has changed the decision, and the timer does not check offers of nothing."""
    HEALED = "healed"


class ColocationTransaction(Protocol):
    """One transaction: it commits as a whole on leaving its context, or not at all."""

    async def expect(self, consumer: str, news: Sequence[tuple[str, str]]) -> None:
        """Prefetches the data of these events (id, node), which are handled next."""
        ...

    async def first_time(self, consumer: str, event_id: str) -> bool:
        """Records that `consumer` handles this event. Returns False if it already has."""
        ...

    async def expect_nodes(self, nodes: Sequence[str]) -> None:
        """Prefetches and locks the states of these nodes, which are loaded next."""
        ...

    async def load(self, node: str) -> NodeState:
        """Returns the node's state, locked until the transaction ends; an empty one for an unknown node.

        Raises Unreadable if the stored state cannot be read; it is in quarantine from then on.
        """
        ...

    async def save(self, state: NodeState) -> None: ...

    async def remove(self, node: str) -> None:
        """Deletes the state of a node that `load` has locked."""
        ...

    async def publish(self, event: Event[Any]) -> None:
        """Puts an event into the outbox."""
        ...


class ColocationStore(Protocol):
    """Methods raise Unavailable while the store does not answer."""

    def begin(self) -> AbstractAsyncContextManager[ColocationTransaction]: ...

    async def totals(self) -> Sequence[PoolTotals]:
        """Returns the present offers by pool."""
        ...

    async def at_rest(self, at_seconds: float) -> Sequence[str]:
        """Returns the nodes whose offer time alone has not changed by `at_seconds`."""
        ...

    async def states_of(self, nodes: Sequence[str]) -> Sequence[NodeState]:
        """Returns the present states without locks; unknown nodes are left out."""
        ...

    async def ageing(self, at_seconds: float) -> Sequence[str]:
        """Returns nodes with an offer that was due to change without events by `at_seconds` (since 1970)."""
        ...

    async def last_offer(self, node: str) -> LastOffer:
        """Returns the last published offer, of which what cannot be read is left out."""
        ...


@dataclass(frozen=True, slots=True)
class LastOffer:
    """The generation of the last published offer of a node, and its time."""

    generation: int = 0
    offered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Followers:
    """The nodes that follow a document: their number, how many of them have annotations or labels that cannot be used,
    and the first few of these by name, each with its problem.
    """

    nodes: int = 0
    bad: int = 0
    problems: tuple[tuple[str, str], ...] = ()


class TellingTransaction(Protocol):
    """One transaction on the published findings about documents."""

    async def published_problems(self) -> Mapping[str, str]:
        """Returns the last published problem by name of the document, for documents that have one."""
        ...

    async def publish_problem(self, name: str, problem: str, event: Event[Any]) -> None:
        """Stores the problem published now (empty: the document is usable again), and puts the event into the
        outbox.
        """
        ...

    async def publish(self, event: Event[Any]) -> None:
        """Puts an event into the outbox without storing a finding."""
        ...


class FollowerStore(Protocol):
    """Queries nodes by the documents they follow. Methods raise Unavailable while the store does not answer."""

    async def followers(self, most: int) -> Mapping[str, Followers]:
        """Returns the followers by source without its generation (`cluster`, `pool/NAME`), with up to `most` problems
        each.
        """
        ...

    async def following(self, after: str, limit: int) -> Sequence[NodeState]:
        """Returns described nodes with names after `after`, in order: what each follows, and its inputs (pool,
        annotations, labels). The rest of these states is empty.
        """
        ...

    async def page(self, after: str, limit: int) -> Sequence[NodeState]:
        """Returns states of nodes with names after `after`, in order, without locks."""
        ...

    def telling(self) -> AbstractAsyncContextManager[TellingTransaction]: ...
