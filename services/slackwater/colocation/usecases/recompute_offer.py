"""Whenever something about a node is news, or time has passed: decide its offer anew, and tell it if it changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from slackwater.colocation.domain.degrade import degraded_because
from slackwater.colocation.domain.node import NodeState, Source, with_offer
from slackwater.colocation.domain.node_offer import decide_node
from slackwater.colocation.domain.present import due_at_of, snapshot_of
from slackwater.colocation.ports import ColocationStore, ColocationTransaction, Followed, Strategies
from slackwater.colocation.usecases.note_followed import note_followed
from slackwater.colocation.usecases.tell_offer import offer_events
from slackwater.decisions.reasons import Reason
from slackwater.events.envelope import Event
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.model.records import record
from slackwater.model.time import Clock


@record(frozen=True, slots=True)
class Offering:
    """What every use case here needs; `published` is told what was put into the outbox and how long ago its
    cause was published, `decided` each node that was decided because of an event, after the commit."""

    store: ColocationStore
    strategies: Strategies
    clock: Clock
    published: Callable[[Sequence[Event[Any]], float | None], None] = lambda events, caused_seconds_ago: None
    decided: Callable[[str], None] = lambda node: None


@record(frozen=True, slots=True)
class News:
    """One event, the node it speaks of, and what it changes there."""

    event: Event[Any]
    node: str
    change: Callable[[NodeState], NodeState]


async def take_news(offering: Offering, consumer: str, batch: Sequence[News]) -> int:
    """Apply events to their nodes, each in turn, and decide anew after each, all in one transaction.

    Returns how many had not been handled before. Raises Unavailable.
    """
    told: list[tuple[Event[Any], Sequence[Event[Any]]]] = []
    async with offering.store.begin() as transaction:
        await transaction.expect(consumer, [(news.event.id, news.node) for news in batch])
        for news in batch:
            if await transaction.first_time(consumer, news.event.id):
                events = await decide_anew(offering, transaction, news.node, news.change, news.event)
                told.append((news.event, events))
    for news in batch:
        offering.decided(news.node)
    for cause, events in told:
        offering.published(events, (offering.clock.now() - cause.time).total_seconds())
    return len(told)


async def age_offers(offering: Offering, partitions: Collection[int] = ALL_PARTITIONS) -> int:
    """Decide anew where usage or prediction has grown old, for the nodes of these partitions.

    Called by a timer; returns how many offers changed. Raises Unavailable, Fenced.
    """
    return await revisit(offering, await offering.store.ageing(offering.clock.now().timestamp()), partitions)


async def revisit(
    offering: Offering,
    nodes: Iterable[str],
    partitions: Collection[int] = ALL_PARTITIONS,
    because: Reason | None = None,
) -> int:
    """Decide anew for these nodes without any news of them, each in a transaction of its own; those of other partitions
    are left alone. Returns how many offers changed. Raises Unavailable, Fenced.
    """
    changed = 0
    for node in nodes:
        if partition_of(node) not in partitions:
            continue
        async with offering.store.begin() as transaction:
            events = await decide_anew(offering, transaction, node, lambda state: state, None, because)
        offering.published(events, None)
        changed += bool(events)
    return changed


async def decide_anew(
    offering: Offering,
    transaction: ColocationTransaction,
    node: str,
    change: Callable[[NodeState], NodeState],
    trigger: Event[Any] | None,
    because: Reason | None = None,
) -> Sequence[Event[Any]]:
    """The state of a node, changed and decided upon; returns what is published of its offer."""
    state = await transaction.load(node)
    changed = change(state)
    followed, now = offering.strategies.of(changed), offering.clock.now()
    noted, checked = note_followed(changed, followed, now, trigger)
    after, events = recompute(noted, followed, now, trigger, because, tell_anew=bool(checked))
    if after != state:
        await transaction.save(after)
    for event in (*checked, *events):
        await transaction.publish(event)
    return events


def recompute(
    state: NodeState,
    followed: Followed,
    now: datetime,
    trigger: Event[Any] | None,
    because: Reason | None = None,
    *,
    tell_anew: bool = False,
) -> tuple[NodeState, list[Event[Any]]]:
    """The node's state after deciding, and what is to be published: nothing while nothing changed, unless there is
    something new to be said of why (`tell_anew`). `because` is the reason that is told; None: what the change itself
    says."""
    strategy = followed.strategy
    snapshot = snapshot_of(state, strategy, now)
    if snapshot is None:
        return state, []
    offer = decide_node(snapshot, strategy, state.gates, state.window_end, state.zones)
    after = with_offer(state, offer, degraded_because(snapshot, strategy), due_at_of(state, strategy, now))
    if says_the_same(state, after, followed.sources) and not tell_anew:
        return after if state.strategies else replace(after, strategies=followed.sources), []
    told = replace(after, generation=state.generation + 1, strategies=followed.sources)
    events = offer_events(state, told, snapshot, followed, offer, now, trigger, because)
    return replace(told, told_by=Source(events[-1].id, now)), events


def says_the_same(before: NodeState, after: NodeState, sources: tuple[str, ...]) -> bool:
    """Whether what was told before still holds. Of a state from before strategies were kept, they are not compared."""
    return (
        before.cpu.published is not None
        and (before.batch, before.mid, before.zones) == (after.batch, after.mid, after.zones)
        and (before.degraded, before.status) == (after.degraded, after.status)
        and before.strategies in ((), sources)
    )
