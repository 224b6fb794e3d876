"""Builds the records of cordoning and uncordoning a node: the rules, their measurements, and the
replay arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import DecisionRecord, Input, Replay, Term
from slackwater.waterline import cycle_replay
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.analysis.scheduling import Scheduling
from slackwater.waterline.cycle import Cycle, CycleState
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.node_guard import GuardState
from slackwater.waterline.registry.plugins import all_metrics

SUBJECT: Final = "scheduling"
UNIT: Final = "closing rules"


@dataclass(frozen=True, slots=True)
class _Said:
    """One rule of a record: whether it counts, its text, and its verdict."""

    rule: str
    counts: bool
    note: str
    verdict: RuleVerdict | None = None


def closed_record(decision_id: str, cycle: Cycle, source: DecisionContext) -> DecisionRecord:
    """Returns the record of a cordon: one term per rule that is triggered, or that was and still
    holds it.
    """
    verdicts = {verdict.rule.key: verdict for verdict in cycle.analysis.verdicts}
    said = [_holding(key, verdicts.get(key)) for key in cycle.analysis.scheduling.scheduling.because]
    return _record(decision_id, Reason.SCHEDULING_WATERLINE_CROSSED, said, source, _by_cycle(source))


def would_close_record(decision_id: str, cycle: Cycle, source: DecisionContext) -> DecisionRecord:
    """Returns the record of a cordon prevented by the pool's mode, or by rules that are
    previews.
    """
    said = [_triggered(verdict) for verdict in cycle.analysis.verdicts if verdict.rule.key in cycle.would_close]
    return _record(decision_id, Reason.SCHEDULING_OBSERVED_ONLY, said, source, _by_cycle(source, would=True))


def opened_record(
    decision_id: str, rules: Sequence[str], cycle: Cycle, source: DecisionContext, *, lapsed: bool = False
) -> DecisionRecord:
    """Returns the record of uncordoning a node: why no rule holds it any more, or that its cordon lapsed."""
    verdicts = {verdict.rule.key: verdict for verdict in cycle.analysis.verdicts if not verdict.rule.is_preview}
    said = [_quiet(key, verdicts.get(key)) for key in rules]
    reason = Reason.SCHEDULING_LAPSED if lapsed else _why_open(rules, verdicts, source.options.mode)
    return _record(decision_id, reason, said, source, _by_cycle(source))


def opened_under_record(
    decision_id: str, before: Scheduling, source: DecisionContext, labels: Mapping[str, str]
) -> DecisionRecord:
    """Returns the record of uncordoning before the next report, because rules or mode changed."""
    observing = source.options.mode is Mode.OBSERVE
    reason = Reason.SCHEDULING_MODE_CHANGED if observing else Reason.SCHEDULING_RULES_GONE
    note = "may not act in this mode" if observing else "is gone, changed, or not for this node any more"
    said = [_Said(key, False, note) for key in before.because]
    replay = cycle_replay.replay_of_rules(before, source.rules.policies, source.options, labels)
    return _record(decision_id, reason, said, source, replay)


def _why_open(rules: Sequence[str], verdicts: Mapping[str, RuleVerdict], mode: Mode) -> Reason:
    if mode is Mode.OBSERVE:
        return Reason.SCHEDULING_MODE_CHANGED
    left = [verdicts[key] for key in rules if key in verdicts]
    if not left:
        return Reason.SCHEDULING_RULES_GONE
    return Reason.SCHEDULING_CALM if any(one.calm for one in left) else Reason.SCHEDULING_NOT_MEASURED


def _triggered(verdict: RuleVerdict) -> _Said:
    return _Said(
        verdict.rule.key, True, f"{_measured(verdict)} is above {verdict.rule.waterline.normalize():f}", verdict
    )


def _holding(key: str, verdict: RuleVerdict | None) -> _Said:
    if verdict is None or not verdict.triggered:
        return _Said(key, True, "was crossed, and is not calm for long enough", verdict)
    return _triggered(verdict)


def _quiet(key: str, verdict: RuleVerdict | None) -> _Said:
    if verdict is None:
        return _Said(key, False, "is gone, changed, or not for this node any more")
    if verdict.reading is None:
        return _Said(key, False, verdict.state.missing, verdict)
    return _Said(key, False, f"{_measured(verdict)}, waterline {_waterline(verdict)}", verdict)


def _waterline(verdict: RuleVerdict) -> str:
    return f"{verdict.rule.waterline.normalize():f}"


def _measured(verdict: RuleVerdict) -> str:
    reading = verdict.reading
    return f"{verdict.rule.metric} {float(reading):.4g}" if reading is not None else verdict.rule.metric


def _record(
    decision_id: str, reason: Reason, said: Sequence[_Said], source: DecisionContext, replay: Replay
) -> DecisionRecord:
    terms = tuple(Term(name=one.rule, value=int(one.counts), note=one.note, input=_input_of(one)) for one in said)
    return DecisionRecord(
        id=decision_id,
        kind=DecisionKind.SCHEDULING,
        node=source.node,
        subject=SUBJECT,
        service=source.service,
        rule=", ".join(one.rule for one in said),
        mode=source.options.mode,
        reason=reason,
        decided_at=source.now,
        trigger_event_id=source.report_id,
        inputs=_inputs(said, source),
        terms=terms,
        result=sum(term.value for term in terms),
        unit=UNIT,
        replay=replay,
    )


def _input_of(said: _Said) -> str:
    return "" if said.verdict is None else said.verdict.rule.metric


def _inputs(said: Sequence[_Said], source: DecisionContext) -> tuple[Input, ...]:
    """Returns the mode, and the reading, waterline and cool-down of each rule."""
    rules, view = source.rules.source, source.view
    actions = {action.name: action for action in source.rules.policies.actions}
    found = [Input(name="mode", value=source.options.mode, unit="", source=rules)]
    for verdict in (one.verdict for one in said if one.verdict is not None):
        rule, unit = verdict.rule, verdict.metric.dimension.value if verdict.metric is not None else ""
        reading = None if verdict.reading is None else float(verdict.reading)
        at = None if view is None else view.sampled_at
        if all(one.name != rule.metric for one in found):
            report = source.report_id or ""
            found.append(Input(name=rule.metric, value=reading, unit=unit, source=report, observed_at=at))
        found.append(Input(name=f"waterline of {rule.key}", value=float(rule.waterline), unit=unit, source=rules))
        if rule.action in actions:
            seconds = actions[rule.action].cool_down_seconds
            found.append(Input(name=f"cool-down of {rule.action}", value=seconds, unit="seconds", source=rules))
    return tuple(found)


def _by_cycle(source: DecisionContext, *, would: bool = False) -> Replay:
    """Returns the replay without limits and evictions, and with pods only where a metric reads them."""
    assert source.view is not None  # noqa: S101 - a cycle always has a report
    state = GuardState(cycle=CycleState(analyzer=source.state.cycle.analyzer, loop=source.state.cycle.loop))
    view, policies = _slim(source.view, source), source.rules.policies
    return cycle_replay.replay_of_cycle(
        cycle_replay.REPLAY_SCHEDULING, view, state, policies, source.options, source.now, would=would
    )


def _slim(view: NodeReadings, source: DecisionContext) -> NodeReadings:
    metrics = all_metrics()
    read = (metrics.get(rule.metric) for node in source.rules.policies.nodes for rule in node.rules)
    return view if any(one is not None and one.needs_pods for one in read) else replace(view, pods=())
