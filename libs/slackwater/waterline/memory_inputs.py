"""The inputs of decisions about memory limits, each with its formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal

from slackwater.decisions.record import Input
from slackwater.waterline.actuation.memory_high import MemoryBounds
from slackwater.waterline.analysis.analyzer import Analysis
from slackwater.waterline.analysis.demands import Demand
from slackwater.waterline.analysis.memory_demands import memory_need, releasable_of
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.facts.amounts import ZERO
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop.applied_memory import MemoryBackoff
from slackwater.waterline.policies.values import PolicyAction

BYTES = "bytes"


def bounds_of(verdict: RuleVerdict, actions: Iterable[PolicyAction]) -> MemoryBounds:
    """Returns the bounds of the action that a rule names."""
    found = next((action.memory for action in actions if action.name == verdict.rule.action), None)
    return found or MemoryBounds()


def decisive_need(view: NodeReadings, actions: Iterable[PolicyAction]) -> Callable[[RuleVerdict], Decimal]:
    """Returns a function that gives the bytes that a rule's metric lacks; 0 if that cannot be quantified."""
    known = tuple(actions)
    return lambda verdict: memory_need(verdict, view, bounds_of(verdict, known)) or ZERO


def need_inputs(
    demand: Demand, verdict: RuleVerdict, bounds: MemoryBounds, view: NodeReadings, source: str
) -> list[Input]:
    """Returns how the gap follows from the reading, and the floor of each pod."""
    metric = demand.metric
    found = []
    need = memory_need(verdict, view, bounds)
    if metric.memory is not None and need is not None:
        if metric.memory.is_bounded:
            found.append(Input(name="horizon", value=float(bounds.horizon_seconds), unit="seconds", source=source))
        found.append(Input(name="lacking", value=int(need), unit=BYTES, source=f"computed: {metric.memory.formula}"))
    most = releasable_of(demand.candidates)
    if metric.memory is not None and metric.memory.is_bounded and most:
        said = "computed: what the candidates hold beyond their floors"
        found.append(Input(name="releasable", value=int(most), unit=BYTES, source=said))
    floor = f"computed: max({bounds.min_ratio} x request, {bounds.min_bytes}, {bounds.margin_ratio} x usage)"
    step = f"{bounds.step_ratio} of usage and page cache at most per pod and cycle"
    found.append(Input(name="floor", value="each pod's own", unit=BYTES, source=floor))
    found.append(Input(name="step", value=float(bounds.step_ratio), unit="ratio", source=f"{source}: {step}"))
    return found


def gap_source(demand: Demand) -> str:
    """Returns how the gap is computed."""
    said = "computed: (1 + excess_ratio) x lacking"
    is_bounded = demand.metric.memory is not None and demand.metric.memory.is_bounded
    return said + (", at most releasable" if is_bounded else "")


def restore_inputs(analysis: Analysis, loop: MemoryBackoff, now: datetime) -> list[Input]:
    """Returns the inputs of a raise."""
    found = [Input(name="backoff", value=loop.backoff, unit="raises answered by a trigger", source="state")]
    if loop.last_trigger_at is not None:
        since = round((now - loop.last_trigger_at).total_seconds(), 1)
        found.append(Input(name="since_last_trigger", value=since, unit="seconds", source="state"))
    rooms = [candidate.headroom for candidate in analysis.restorable_memory if candidate.headroom is not None]
    if rooms:
        said = "computed: waterline - reading"
        found.append(Input(name="headroom", value=int(max(rooms)), unit=BYTES, source=said))
    free = [candidate.free for candidate in analysis.restorable_memory if candidate.free is not None]
    if free:
        said = "computed: a limit rises into what is free, else by a tenth"
        found.append(Input(name="free_memory", value=int(max(free)), unit=BYTES, source=said))
    steps = [candidate.bounds.restore_step_ratio for candidate in analysis.restorable_memory if candidate.is_covered]
    if steps:
        said = "of each limit at most per cycle; a limit that does not bind its pod is removed"
        found.append(Input(name="restore_step", value=float(min(steps)), unit="ratio", source=f"policy: {said}"))
    return found
