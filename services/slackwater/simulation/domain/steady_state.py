"""Finds the steps that can be skipped without changing the result. Pure.

A step depends on usage, state and time. While demand is constant, a step that did nothing and changed only timestamps
of the state is followed by steps that do nothing, until a deadline in the state passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from slackwater.waterline.node_guard import GuardState
from slackwater.waterline.rulebook import Rulebook

_HOUR = timedelta(hours=1)


def moved(state: GuardState, since: datetime, to: datetime) -> GuardState:
    """Returns the state as if its last step had been at `to` instead of `since` with the same result: a step in which a
    rule is above its waterline stores the time."""
    cycle, analyzer = state.cycle, state.cycle.analyzer
    noted = [rule.last_trigger_at for rule in analyzer.rules]
    if since == to or since not in (*noted, analyzer.scheduling.last_trigger_at, cycle.loop.last_trigger_at):
        return state
    rules = tuple(
        replace(rule, last_trigger_at=to) if rule.last_trigger_at == since else rule for rule in analyzer.rules
    )
    scheduling, loop = analyzer.scheduling, cycle.loop
    if scheduling.last_trigger_at == since:
        scheduling = replace(scheduling, last_trigger_at=to)
    if loop.last_trigger_at == since:
        loop = replace(loop, last_trigger_at=to)
    analyzer = replace(analyzer, rules=rules, scheduling=scheduling)
    return replace(state, cycle=replace(cycle, analyzer=analyzer, loop=loop))


def deadlines(state: GuardState, rules: Rulebook, stepped_at: datetime) -> Iterator[datetime]:
    """Yields each time from which the same sample can give another decision. Times that the step at `stepped_at` set
    are left out, because the next step sets them again."""
    cool_downs = {rule.key: rule.cool_down_seconds for node in rules.policies.nodes for rule in node.rules}
    cycle, loop, policy = state.cycle, state.cycle.loop, rules.loop
    for rule in cycle.analyzer.rules:
        if rule.last_trigger_at is not None and rule.last_trigger_at != stepped_at:
            yield rule.last_trigger_at + timedelta(seconds=cool_downs.get(rule.rule, 0.0))
    scheduling = cycle.analyzer.scheduling
    if scheduling.is_disabled and scheduling.last_trigger_at not in (None, stepped_at):
        assert scheduling.last_trigger_at is not None  # noqa: S101 - checked in the condition
        for action in rules.policies.actions:
            yield scheduling.last_trigger_at + timedelta(seconds=action.cool_down_seconds)
    if loop.last_trigger_at is not None and loop.last_trigger_at != stepped_at:
        waits = {*cool_downs.values(), policy.probe_seconds}
        yield from (loop.last_trigger_at + timedelta(seconds=wait * (1 << loop.backoff)) for wait in waits)
        yield loop.last_trigger_at + timedelta(seconds=policy.probe_seconds)
    if loop.last_raise_at is not None:
        waits = {*cool_downs.values(), policy.relapse_seconds}
        yield from (loop.last_raise_at + timedelta(seconds=wait) for wait in waits)
    if loop.pending_since is not None:
        yield loop.pending_since + timedelta(seconds=policy.pending_seconds)
    if loop.settled_at is not None:
        yield loop.settled_at + timedelta(seconds=policy.settle_seconds)
    yield from (pod.until for pod in cycle.executor.underway)
    yield from (pod.until for pod in cycle.executor.refused)
    yield from (at + _HOUR for at in cycle.executor.begun_at)
