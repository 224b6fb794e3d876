"""Runs a backtest: reads the trace, builds the models, and evaluates them under every placement."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from slackwater.backtest.adapters.predictors import contenders
from slackwater.backtest.domain.span import JudgedSpan, judged_span
from slackwater.backtest.ports import BacktestProgress
from slackwater.backtest.usecases.compare import ModelComparison, PlacementLayout, compare
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.formats import detected, read_trace
from slackwater.traces.trace import Trace

USUAL_VMS_PER_NODE = 20


@dataclass(frozen=True, slots=True)
class Order:
    """The parameters of a backtest."""

    trace: Path
    form: str | None
    """None: it is detected."""
    resource: TraceResource
    models: str
    per_machine: int | None
    """None: 20, or 1 if each series is a whole machine."""
    churn_days: float | None
    seeds: int
    wrong_keys: float
    since: str | None
    until: str | None
    filmed: bool


@dataclass(frozen=True, slots=True)
class BacktestOutcome:
    """The inputs and the result of a backtest."""

    order: Order
    trace: Trace
    layout: PlacementLayout
    span: JudgedSpan
    comparison: ModelComparison


def run(order: Order, watch: BacktestProgress) -> BacktestOutcome:
    """Raises InvalidInput for invalid parameters or an unreadable file, Misconfigured for a missing library."""
    models = contenders(order.models, order.resource)  # first: a misspelt name fails before the trace is read
    order = replace(order, form=order.form or detected(order.trace))
    trace = read_trace(order.trace, order.form, order.resource)
    usual = 1 if trace.whole_machines else USUAL_VMS_PER_NODE
    per_machine = usual if order.per_machine is None else order.per_machine
    layout = PlacementLayout(per_machine, order.churn_days, order.seeds, order.wrong_keys)
    span = judged_span(trace, order.since, order.until)
    comparison = compare(trace, layout, models, span, watch=watch, stopwatch=time.process_time, filmed=order.filmed)
    return BacktestOutcome(order, trace, layout, span, comparison)
