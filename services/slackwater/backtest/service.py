"""A whole backtest: read the trace, make the models, judge them under every placement."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from slackwater.backtest.adapters.predictors import contenders
from slackwater.backtest.domain.span import Span, span_of
from slackwater.backtest.ports import Watch
from slackwater.backtest.usecases.compare import Comparison, Layout, compare
from slackwater.traces.choices import Resource, TraceFormat
from slackwater.traces.readers.formats import read_trace
from slackwater.traces.trace import Trace

USUAL_VMS_PER_NODE = 20


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for."""

    trace: Path
    form: TraceFormat
    resource: Resource
    models: str
    per_machine: int | None
    """None: 20, or 1 where each series is a whole machine."""
    churn_days: float | None
    seeds: int
    wrong_keys: float
    since: str | None
    until: str | None
    filmed: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was judged, and what came of it."""

    order: Order
    trace: Trace
    layout: Layout
    span: Span
    comparison: Comparison


def run(order: Order, watch: Watch) -> Outcome:
    """Raises InvalidInput for what was asked wrongly and for a bad file, Misconfigured for a missing library."""
    models = contenders(order.models, order.resource)  # first: reading a trace to learn of a misspelt name is long
    trace = read_trace(order.trace, order.form, order.resource)
    usual = 1 if trace.whole_machines else USUAL_VMS_PER_NODE
    per_machine = usual if order.per_machine is None else order.per_machine
    layout = Layout(per_machine, order.churn_days, order.seeds, order.wrong_keys)
    span = span_of(trace, order.since, order.until)
    comparison = compare(trace, layout, models, span, watch=watch, stopwatch=time.process_time, filmed=order.filmed)
    return Outcome(order, trace, layout, span, comparison)
