"""After a cycle, or under other rules: the events and records of a node that is or was cordoned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.node_state import (
    CordonMessage,
    CordonNotice,
    GuardedNode,
    as_others_see_it,
    cordon_message,
    lapsed,
    renewed,
)
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.intents.controls import ENSURANCE
from slackwater.model.identifiers import new_id
from slackwater.waterline.cycle import Cycle
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.node_guard import GuardState, scheduling_under, with_scheduling
from slackwater.waterline.scheduling_record import closed_record, opened_record, opened_under_record, would_close_record


@dataclass(frozen=True, slots=True)
class Cordon:
    """`closed` is the cordon as published from now on; `event` and `record` are set if it changed or is renewed."""

    closed: CordonNotice | None
    event: NodeSchedulingChanged | None = None
    record: DecisionRecord | None = None


def state_of(guarded: GuardedNode, now: datetime) -> GuardState:
    """The state that the next cycle starts with, without an expired cordon."""
    if guarded.closed is None:
        return guarded.state
    before = guarded.state.cycle.analyzer.scheduling
    return with_scheduling(guarded.state, as_others_see_it(before, guarded.closed, now))


def after_cycle(notice: CordonNotice | None, cycle: Cycle, source: DecisionContext, valid_seconds: float) -> Cordon:
    """`notice` is the cordon as last published, `source` the inputs of the cycle."""
    scheduling, now = cycle.analysis.scheduling.scheduling, source.now
    message = cordon_message(scheduling, notice, now, valid_seconds)
    if message is CordonMessage.CLOSED:
        record = closed_record(new_id(), cycle, source)
        until = now + timedelta(seconds=valid_seconds)
        closed = CordonNotice(record.id, record.reason, now, scheduling.because, until)
        return Cordon(closed, _closed(closed, source.node, now), record)
    if message is CordonMessage.STILL and notice is not None:
        closed = renewed(notice, scheduling, now, valid_seconds)
        return Cordon(closed, _closed(closed, source.node, now))
    if message is CordonMessage.OPENED and notice is not None:
        record = opened_record(new_id(), notice.rules, cycle, source, lapsed=lapsed(notice, now))
        return Cordon(None, _opened(notice, record, now), record)
    if cycle.would_close:
        return Cordon(notice, record=would_close_record(new_id(), cycle, source))
    return Cordon(notice)


def under_rules(
    guarded: GuardedNode, state: GuardState, source: DecisionContext, labels: Mapping[str, str]
) -> tuple[GuardState, Cordon]:
    """Under other rules or in another mode: uncordon at once a node that no rule may keep cordoned."""
    notice = guarded.closed
    step = scheduling_under(state, source.rules.policies, source.options, labels)
    after = with_scheduling(state, step.scheduling)
    if notice is None or step.scheduling.is_disabled:
        return after, Cordon(notice)
    before = guarded.state.cycle.analyzer.scheduling
    record = opened_under_record(new_id(), before, source, labels)
    return after, Cordon(None, _opened(notice, record, source.now), record)


def scheduling_event(
    change: NodeSchedulingChanged, now: datetime, cause: Event[Any] | None
) -> Event[NodeSchedulingChanged]:
    return event_of(change, source=ENSURANCE.name, time=now, causedby=cause)


def _closed(closed: CordonNotice, node: str, now: datetime) -> NodeSchedulingChanged:
    return NodeSchedulingChanged(
        node=node,
        closed=True,
        reason=closed.reason,
        decision_id=closed.decision_id,
        rules=closed.rules,
        since=closed.since,
        told_at=now,
        valid_until=closed.until,
    )


def _opened(notice: CordonNotice, record: DecisionRecord, now: datetime) -> NodeSchedulingChanged:
    return NodeSchedulingChanged(
        node=record.node,
        closed=False,
        reason=record.reason,
        decision_id=record.id,
        rules=notice.rules,
        since=now,
        told_at=now,
        valid_until=None,
    )
