"""Reads a trace and selects the part of it that is replayed."""

from __future__ import annotations

from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.trace_history import TraceHistory, TraceLayout, both, placed
from slackwater.simulation.ports import SimulationProgress
from slackwater.simulation.settings import TraceOrder
from slackwater.traces.days import cell_at
from slackwater.traces.trace import Trace


def history_of(order: TraceOrder, watch: SimulationProgress) -> TraceHistory:
    """Reads the trace of an order. Raises InvalidInput, Misconfigured."""
    layout = TraceLayout(order.per_node, order.churn_days, order.seed)
    watch.begin("reading the trace", None)
    traces = both(order.path, order.form, order.resources)
    trace = next(iter(traces.values()))
    first, stop = span(trace, order.since, order.until)
    return TraceHistory(placed(traces, layout), order.model, first, stop)


def span(trace: Trace, since: str | None, until: str | None) -> tuple[int, int]:
    """Returns the first cell that counts and the cell after the last one. Raises InvalidInput."""
    first = 0 if since is None else cell_at(trace, since, "from")
    stop = trace.cells if until is None else cell_at(trace, until, "to")
    if first >= stop:
        raise InvalidInput(
            "--from: nothing to replay, because --from is not before --to; give an earlier --from or a later --to",
            field="from",
        )
    return first, stop
