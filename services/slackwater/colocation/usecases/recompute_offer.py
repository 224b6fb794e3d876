"""Recomputes a node's offer after an event or when time has passed, and publishes it if it changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from slackwater.colocation.ports import ColocationStore, ColocationTransaction, FollowedStrategy, Strategies
from slackwater.colocation.usecases.offer_events import offer_events
from slackwater.colocation.usecases.strategy_problems import note_followed
from slackwater.decisions.reasons import Reason
from slackwater.events.envelope import Event
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.model.records import record
from slackwater.model.time import Clock, later_than
from slackwater.offers.degradation import degraded_because
from slackwater.offers.node import InputSource, NodeState, with_offer
from slackwater.offers.node_offer import decide_node
from slackwater.offers.snapshots import due_at_of, snapshot_of
from slackwater.store.quarantine import OF_NO_ROW, Quarantine, Unreadable, described
from slackwater.store.quarantine_memory import unstored
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
STATES = "nodes"
"""The table of the states, and its name in the quarantine."""


@record(frozen=True, slots=True)
class Offering:
    """Dependencies of the use cases. After the commit, `published` is called with the events put into the outbox and
    the age of their cause in seconds, and `decided` with each node that an event led to a decision on.
    """

    store: ColocationStore
    strategies: Strategies
    clock: Clock
    published: Callable[[Sequence[Event[Any]], float | None], None] = lambda events, caused_seconds_ago: None
    decided: Callable[[str], None] = lambda node: None
    quarantine: Quarantine = field(default_factory=unstored)


@record(frozen=True, slots=True)
class NodeUpdate:
    """One event, its node, and the change it makes there."""

    event: Event[Any]
    node: str
    change: Callable[[NodeState], NodeState]


async def apply_updates(offering: Offering, consumer: str, batch: Sequence[NodeUpdate]) -> int:
    """Applies events to their nodes in order and recomputes after each, all in one transaction.

    Events of nodes in quarantine change nothing. Returns the number of events not handled before. Raises Unavailable,
    and InvalidInput for an event that makes the decision on its node impossible.
    """
    published: list[tuple[Event[Any], Sequence[Event[Any]]]] = []
    async with offering.store.begin() as transaction:
        await transaction.expect(consumer, [(update.event.id, update.node) for update in batch])
        for update in batch:
            if await transaction.first_time(consumer, update.event.id):
                events = await recompute_node(offering, transaction, update.node, update.change, update.event)
                published.append((update.event, events))
    for update in batch:
        offering.decided(update.node)
    for cause, events in published:
        offering.published(events, (offering.clock.now() - cause.time).total_seconds())
    return len(published)


async def age_offers(offering: Offering, partitions: Collection[int] = ALL_PARTITIONS) -> int:
    """Recomputes nodes of these partitions whose usage or prediction has aged; runs on a timer.

    Returns how many offers changed. Raises Unavailable, Fenced.
    """
    return await recompute_nodes(offering, await offering.store.ageing(offering.clock.now().timestamp()), partitions)


async def recompute_nodes(
    offering: Offering,
    nodes: Iterable[str],
    partitions: Collection[int] = ALL_PARTITIONS,
    because: Reason | None = None,
    *,
    republish: bool = False,
) -> int:
    """Recomputes these nodes without an event, each in its own transaction. Nodes of other partitions are skipped, and
    nodes that fail are set aside. Returns how many offers were published: those that changed, or all if `republish`.
    Raises Unavailable, Fenced.
    """
    changed = 0
    for node in nodes:
        if partition_of(node) not in partitions or offering.quarantine.holds_node(node):
            continue
        with offering.quarantine.isolating(STATES, node, node=node):
            async with offering.store.begin() as transaction:
                events = await recompute_node(
                    offering, transaction, node, lambda state: state, None, because, republish=republish
                )
            offering.published(events, None)
            changed += bool(events)
    return changed


async def recompute_node(
    offering: Offering,
    transaction: ColocationTransaction,
    node: str,
    change: Callable[[NodeState], NodeState],
    trigger: Event[Any] | None,
    because: Reason | None = None,
    *,
    republish: bool = False,
) -> Sequence[Event[Any]]:
    """Changes the state of a node and decides on it. Returns the published events: none while the node is in
    quarantine.

    Raises InvalidInput for a trigger that makes the decision impossible.
    """
    if offering.quarantine.holds_node(node):
        if trigger is not None:
            offering.quarantine.left_out(trigger.data.TYPE)
        return ()
    try:
        state = await transaction.load(node)
    except Unreadable:
        return ()
    try:
        after, checked, events = _decided(offering, state, change, trigger, because, republish=republish)
    except OF_NO_ROW:
        raise
    except Exception as error:
        log.exception("an offer cannot be decided", node=node)
        _blame(offering, state, trigger, error)
        return ()
    if after != state:
        await transaction.save(after)
    for event in (*checked, *events):
        await transaction.publish(event)
    return events


def _decided(
    offering: Offering,
    state: NodeState,
    change: Callable[[NodeState], NodeState],
    trigger: Event[Any] | None,
    because: Reason | None,
    *,
    republish: bool = False,
) -> tuple[NodeState, Sequence[Event[Any]], Sequence[Event[Any]]]:
    """Returns the state afterwards, the events about annotations and labels, and the events about the offer."""
    changed = change(state)
    followed, now = offering.strategies.of(changed), offering.clock.now()
    noted, checked = note_followed(changed, followed, now, trigger)
    after, events = recompute(noted, followed, now, trigger, because, republish=republish or bool(checked))
    return after, checked, events


def _blame(offering: Offering, state: NodeState, trigger: Event[Any] | None, error: Exception) -> None:
    """Sets the node aside if it fails without the event too. Otherwise raises InvalidInput: the event becomes a dead
    letter, and the node stays as it was.
    """
    if trigger is not None and not _fails_alone(offering, state):
        message = f"the offer of {state.node} cannot be decided with this event: {described(error)}"
        raise InvalidInput(message, code="uncomputable") from error
    offering.quarantine.note(STATES, state.node, error, node=state.node, document=state)


def _fails_alone(offering: Offering, state: NodeState) -> bool:
    """Returns whether the decision fails on the stored state."""
    try:
        _decided(offering, state, lambda same: same, None, None)
    except OF_NO_ROW:
        raise
    except Exception:
        log.exception("an offer cannot be decided without the event either", node=state.node)
        return True
    return False


def recompute(
    state: NodeState,
    followed: FollowedStrategy,
    now: datetime,
    trigger: Event[Any] | None,
    because: Reason | None = None,
    *,
    republish: bool = False,
) -> tuple[NodeState, list[Event[Any]]]:
    """Returns the node's state after deciding, and the events to publish: none if nothing changed and not `republish`.

    `because` is the published reason; None: derived from the change.
    """
    strategy = followed.strategy
    snapshot = snapshot_of(state, strategy, now)
    if snapshot is None:
        return state, []
    offer = decide_node(snapshot, strategy, state.gates, state.window_end, state.zones)
    after = with_offer(state, offer, degraded_because(snapshot, strategy), due_at_of(state, strategy, now))
    if is_same_offer(state, after, followed.sources) and not republish:
        return after if state.strategies else replace(after, strategies=followed.sources), []
    published = replace(after, generation=state.generation + 1, strategies=followed.sources)
    offered_at = later_than(None if state.told_by is None else state.told_by.at, now)
    events = offer_events(state, published, snapshot, followed, offer, offered_at, trigger, because)
    return replace(published, told_by=InputSource(events[-1].id, offered_at)), events


def is_same_offer(before: NodeState, after: NodeState, sources: tuple[str, ...]) -> bool:
    """Returns whether the last published offer still holds. States from before strategies were stored do not compare
    them.
    """
    return (
        before.cpu.published is not None
        and (before.batch, before.mid, before.zones) == (after.batch, after.mid, after.zones)
        and (before.batch_taken, before.mid_taken) == (after.batch_taken, after.mid_taken)
        and (before.degraded, before.status) == (after.degraded, after.status)
        and before.strategies in ((), sources)
    )
