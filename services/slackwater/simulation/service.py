"""Both commands: what was asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.backtest.adapters.predictors import contenders
from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.models.port import PeakModel
from slackwater.simulation.adapters.prometheus import Prometheus, Span
from slackwater.simulation.adapters.prometheus_usage import QUERIES, read
from slackwater.simulation.adapters.recorded_history import Reads, recorded
from slackwater.simulation.adapters.strategy_files import (
    as_here,
    base_of,
    default_variant,
    documents_in_force,
    for_nodes,
    named_apart,
    read_all,
    variants,
)
from slackwater.simulation.adapters.trace_history import USUAL_MODEL, Layout, TraceHistory, both, placed
from slackwater.simulation.domain.risk import USUAL_ACCEPTED
from slackwater.simulation.ports import History, Watch
from slackwater.simulation.usecases.assess import Assessment, Model, assess
from slackwater.simulation.usecases.replay import Replayed, replay
from slackwater.traces.choices import Resource, TraceFormat
from slackwater.traces.days import cell_at
from slackwater.traces.trace import Trace

if TYPE_CHECKING:
    import httpx2


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


MODELS = (USUAL_MODEL, f"{USUAL_MODEL}:knob=0.20", *(f"{USUAL_MODEL}:violation_rate={rate}" for rate in (0.01, 0.05)))
PERCENTS = (70, 80, 90, 100)
"""What an assessment tries beside the usual margin: so much of a node may be in use."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What an assessment tries, and which risk is accepted (a share of node minutes)."""

    models: Sequence[str] = MODELS
    percents: Sequence[int] = PERCENTS
    accepted: float = USUAL_ACCEPTED

    def __post_init__(self) -> None:
        if not 0 <= self.accepted < 1:
            raise InvalidInput(f"--accept: {self.accepted} is not a share; 0 to below 1", field="accept")
        for percent in self.percents:
            if not 0 <= percent <= 1000:
                raise InvalidInput(f"--percent: {percent} is not allowed; 0 to 1000", field="percent")


def assess_trace(order: TraceOrder, tried: Tried, watch: Watch) -> Assessment:
    """Raises InvalidInput, Misconfigured."""
    models = models_of(tried)
    return assess(history_of(order, watch).placed, models, tried.percents, tried.accepted, watch)


@dataclass(frozen=True, slots=True)
class PrometheusOrder:
    """A Prometheus and which part of it is read; `client` knows how to prove who asks."""

    client: httpx2.Client
    since_seconds: int
    step_seconds: int
    retries: int = 3

    def __post_init__(self) -> None:
        if self.step_seconds < 15 or self.step_seconds > 3600:
            raise InvalidInput(f"--step: {self.step_seconds} s is not allowed; 15 s to 1 h", field="step")
        if self.since_seconds < 2 * self.step_seconds:
            raise InvalidInput(f"--since: {self.since_seconds} s are not two steps", field="since")
        if self.retries < 0:
            raise InvalidInput(f"--retries: {self.retries} is not allowed; from 0", field="retries")


def assess_prometheus(order: PrometheusOrder, tried: Tried, now_seconds: float, watch: Watch) -> Assessment:
    """Reads only. Raises InvalidInput, Misconfigured, Unavailable, NotFound."""
    models = models_of(tried)
    end = int(now_seconds) // order.step_seconds * order.step_seconds
    span = Span(end - order.since_seconds, end, order.step_seconds)
    watch.begin("reading from Prometheus", QUERIES * len(list(span.pages())))
    server = Prometheus(order.client, order.retries, advance=lambda: watch.advance(1))
    placed_pods = read(server, span, str(order.client.base_url).rstrip("/"))
    return assess(placed_pods, models, tried.percents, tried.accepted, watch)


def models_of(tried: Tried) -> list[Model]:
    """Raises InvalidInput for a name or a setting that is not known."""
    labels = list(dict.fromkeys(tried.models))
    for label in labels:
        contenders(label, Resource.CPU)  # before anything long begins
    return [Model(label, _Maker(label)) for label in labels]


@dataclass(frozen=True, slots=True)
class _Maker:
    label: str

    def __call__(self, resource: Resource) -> PeakModel:
        return contenders(self.label, resource)[0].make()


@dataclass(frozen=True, slots=True)
class RecordedOrder:
    """What an installation recorded. `step_seconds` None: every window."""

    reads: Reads
    since_seconds: int
    step_seconds: int | None = None


def simulate_recorded(files: Sequence[Path], order: RecordedOrder, now: datetime, watch: Watch) -> Simulation:
    """Against the strategies in force. A file replaces the documents of its names; one whose only document selects no
    node is tried as the cluster's. Raises InvalidInput, NotFound, and what the API raises."""
    tried = read_all(files)
    history = recorded(order.reads, order.since_seconds, order.step_seconds, now, watch)
    in_force = documents_in_force(order.reads)
    base = base_of(in_force)
    states = [record.described for record in history.records]
    current = for_nodes("in force", in_force, states, base)
    found, notes = [], list(history.notes)
    for file, documents in tried:
        placed_documents, note = as_here(documents, states)
        notes += [note] if note else []
        name = file.stem if str(file) != "-" and documents[0].is_clusters else documents[0].metadata.name
        found.append(for_nodes(name, [*in_force, *placed_documents], states, base))
    named = named_apart(found, files, ("in force",))
    history = replace(history, strategy=current.strategies[0], notes=notes)
    return Simulation(history, replay(history, [current, *named], watch))
