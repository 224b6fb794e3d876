"""Both commands: what was asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.strategy_files import default_variant, variants
from slackwater.simulation.adapters.trace_history import USUAL_MODEL, Layout, TraceHistory, both, placed
from slackwater.simulation.ports import History, Watch
from slackwater.simulation.usecases.replay import Replayed, replay
from slackwater.traces.choices import Resource, TraceFormat
from slackwater.traces.days import cell_at
from slackwater.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """A trace and what is made of it."""

    path: Path
    form: TraceFormat
    resources: Sequence[Resource] = tuple(Resource)
    per_node: int | None = None
    churn_days: float | None = None
    seed: int = 1
    """See adapters.trace_history.Layout."""
    model: str = USUAL_MODEL
    since: str | None = None
    until: str | None = None
    """Days after its beginning, or dates: what counts. What is before is learned from."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What was replayed, and every variant: what is in force first."""

    history: History
    replayed: Sequence[Replayed]


def simulate_trace(files: Sequence[Path], order: TraceOrder, watch: Watch) -> Simulation:
    """Raises InvalidInput for what was asked wrongly and for bad files, Misconfigured for a missing library."""
    wanted = [default_variant(), *variants(files)]  # first: reading a trace to learn of a misspelt field is long
    history = history_of(order, watch)
    return Simulation(history, replay(history, wanted, watch))


def history_of(order: TraceOrder, watch: Watch) -> TraceHistory:
    """The trace as it was asked for. Raises InvalidInput, Misconfigured."""
    layout = Layout(order.per_node, order.churn_days, order.seed)
    watch.begin("reading the trace", None)
    traces = both(order.path, order.form, order.resources)
    trace = next(iter(traces.values()))
    first, stop = span(trace, order.since, order.until)
    return TraceHistory(placed(traces, layout), order.model, first, stop)


def span(trace: Trace, since: str | None, until: str | None) -> tuple[int, int]:
    """The first cell that counts and the one after the last. Raises InvalidInput."""
    first = 0 if since is None else cell_at(trace, since, "from")
    stop = trace.cells if until is None else cell_at(trace, until, "to")
    if first >= stop:
        raise InvalidInput("nothing to replay: --from is not before --to", field="from")
    return first, stop
