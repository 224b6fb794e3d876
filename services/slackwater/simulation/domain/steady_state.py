"""When nothing can change by itself: looks that would find the same are skipped, and come to the same. Pure.

A look decides on what is used, on its state and on the time. As long as nobody wants anything else, a look that did
nothing and left the state as it was (but for noting the time) is followed by looks that do nothing, until one of the
times that the state remembers is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from slackwater.waterline.node_guard import GuardState
from slackwater.waterline.rulebook import Rulebook

_HOUR = timedelta(hours=1)


def moved(state: GuardState, since: datetime, to: datetime) -> GuardState:
    """The state, had its last look not been at `since` but, finding the same, at `to`: every look at which a rule is
    above notes when that was."""
    cycle, analyzer = state.cycle, state.cycle.analyzer
    noted = [one.last_trigger_at for one in analyzer.rules]
    if since == to or since not in (*noted, analyzer.scheduling.last_trigger_at, cycle.loop.last_trigger_at):
        return state
    rules = tuple(replace(one, last_trigger_at=to) if one.last_trigger_at == since else one for one in analyzer.rules)
    scheduling, loop = analyzer.scheduling, cycle.loop
    if scheduling.last_trigger_at == since:
        scheduling = replace(scheduling, last_trigger_at=to)
    if loop.last_trigger_at == since:
        loop = replace(loop, last_trigger_at=to)
    analyzer = replace(analyzer, rules=rules, scheduling=scheduling)
    return replace(state, cycle=replace(cycle, analyzer=analyzer, loop=loop))


def deadlines(state: GuardState, rules: Rulebook, looked_at: datetime) -> Iterator[datetime]:
    """Every time from which on the same sample may be judged otherwise. What the look at `looked_at` noted itself is
    left out: the next one notes it anew."""
    cool_downs = {rule.key: rule.cool_down_seconds for node in rules.policies.nodes for rule in node.rules}
    cycle, loop, policy = state.cycle, state.cycle.loop, rules.loop
    for one in cycle.analyzer.rules:
        if one.last_trigger_at is not None and one.last_trigger_at != looked_at:
            yield one.last_trigger_at + timedelta(seconds=cool_downs.get(one.rule, 0.0))
    scheduling = cycle.analyzer.scheduling
    if scheduling.is_disabled and scheduling.last_trigger_at not in (None, looked_at):
        assert scheduling.last_trigger_at is not None  # noqa: S101 - just asked
        for action in rules.policies.actions:
            yield scheduling.last_trigger_at + timedelta(seconds=action.cool_down_seconds)
    if loop.last_trigger_at is not None and loop.last_trigger_at != looked_at:
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
    yield from (one.until for one in cycle.executor.underway)
    yield from (one.until for one in cycle.executor.refused)
    yield from (at + _HOUR for at in cycle.executor.begun_at)
