"""What was asked for, and what came of it: strategies and policies on a history, and what a history could lend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.backtest.adapters.predictors import contenders
from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.models.port import PeakModel
from slackwater.simulation.adapters.api_answers import Reads
from slackwater.simulation.adapters.document_files import DocumentFile
from slackwater.simulation.adapters.policy_files import (
    PolicySet,
    first_set,
    only_pool,
    read_policies,
    remarks,
    set_in_force,
    told_apart,
    tried,
    variant_of,
)
from slackwater.simulation.adapters.prometheus import Prometheus, Span
from slackwater.simulation.adapters.prometheus_usage import QUERIES, read
from slackwater.simulation.adapters.recorded_history import recorded
from slackwater.simulation.adapters.recorded_scenes import recorded_scenes
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
from slackwater.simulation.adapters.trace_scenes import BatchLayout, TraceScenes, squeezed
from slackwater.simulation.domain.guarded_run import Terms
from slackwater.simulation.domain.risk import USUAL_ACCEPTED
from slackwater.simulation.ports import History, SceneHistory, Watch
from slackwater.simulation.usecases.assess import Assessment, Model, assess
from slackwater.simulation.usecases.replay import Replayed, Variant, replay
from slackwater.simulation.usecases.replay_policies import GuardReplayed, PolicyVariant, replay_policies
from slackwater.traces.choices import Resource, TraceFormat
from slackwater.traces.days import cell_at
from slackwater.traces.trace import Trace
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.registry.plugins import all_metrics

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


def simulate_trace(files: Sequence[DocumentFile], order: TraceOrder, watch: Watch) -> Simulation:
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
        contenders(label, Resource.CPU, option="model")  # before anything long begins
    return [Model(label, _Maker(label)) for label in labels]


@dataclass(frozen=True, slots=True)
class _Maker:
    label: str

    def __call__(self, resource: Resource) -> PeakModel:
        return contenders(self.label, resource, option="model")[0].make()


@dataclass(frozen=True, slots=True)
class RecordedOrder:
    """What an installation recorded. `step_seconds` None: every window."""

    reads: Reads
    since_seconds: int
    step_seconds: int | None = None


def simulate_recorded(files: Sequence[DocumentFile], order: RecordedOrder, now: datetime, watch: Watch) -> Simulation:
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
        name = file.name if file.name != "stdin" and documents[0].is_clusters else documents[0].metadata.name
        found.append(for_nodes(name, [*in_force, *placed_documents], states, base))
    named = named_apart(found, files, ("in force",))
    notes += _notes_on_predictions(current, named)
    history = replace(history, strategy=current.strategies[0], notes=notes)
    return Simulation(history, replay(history, [current, *named], watch))


def _notes_on_predictions(current: Variant, tried: Sequence[Variant]) -> list[str]:
    """All variants see the same predictions, those that are young enough for the first strategy in force."""
    age = current.strategies[0].prediction_max_age_seconds
    others = {one.prediction_max_age_seconds for variant in (current, *tried) for one in variant.strategies} - {age}
    if not others:
        return []
    return [f"predictionMaxAgeSeconds: {age:.10g} s, as in force, counts for all that are compared"]


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """How a policy is tried. `batch`: see adapters.trace_scenes; it is for traces."""

    terms: Terms = field(default_factory=Terms)
    batch: BatchLayout = field(default_factory=BatchLayout)


@dataclass(frozen=True, slots=True)
class PolicySimulation:
    """What was replayed, and every variant: what is in force first. `remarks`: what in the documents does nothing
    here."""

    history: SceneHistory
    terms: Terms
    metrics: Metrics
    replayed: Sequence[GuardReplayed]
    remarks: Sequence[str]


def simulate_policies_on_trace(
    files: Sequence[DocumentFile], order: TraceOrder, given: PolicyTerms, watch: Watch
) -> PolicySimulation:
    """Against the policy that ensurance begins with. A trace has no labels and no pools: every NodeQOS is for all of
    its nodes, and the only Autonomy of a file for their pool. Raises InvalidInput, Misconfigured."""
    metrics, first = all_metrics(), first_set()
    tried_sets = [(file, tried(first, read_policies(file, metrics), file).everywhere()) for file in files]
    variants = [variant_of("default", first, metrics)]
    variants += [variant_of(file.name, found, metrics, only_pool(found, file)) for file, found in tried_sets]
    history = history_of(order, watch)
    history = replace(history, placed=squeezed(history.placed, given.batch))
    scenes = TraceScenes(history, given.batch, default_variant().decide())
    return _guarded(scenes, variants, [first, *(found for _, found in tried_sets)], given.terms, metrics, watch)


def simulate_policies_recorded(
    files: Sequence[DocumentFile], reads: Reads, since_seconds: int, given: PolicyTerms, now: datetime, watch: Watch
) -> PolicySimulation:
    """Against the policies in force. A file replaces the documents of its kinds and names, as `apply` would. Raises
    InvalidInput, NotFound, and what the API raises."""
    metrics = all_metrics()
    read = [(file, read_policies(file, metrics)) for file in files]
    in_force = set_in_force(reads, metrics)
    sets = [in_force, *(tried(in_force, documents, file) for file, documents in read)]
    variants = [
        variant_of(name, found, metrics)
        for name, found in zip(["in force", *(file.name for file in files)], sets, strict=True)
    ]
    history = recorded_scenes(reads, since_seconds, now, watch)
    return _guarded(history, variants, sets, given.terms, metrics, watch)


def _guarded(
    history: SceneHistory,
    variants: Sequence[PolicyVariant],
    sets: Sequence[PolicySet],
    terms: Terms,
    metrics: Metrics,
    watch: Watch,
) -> PolicySimulation:
    variants = told_apart(variants)
    said: list[str] = []
    for variant, found in zip(variants, sets, strict=True):
        nodes = [node if variant.pool is None else replace(node, pool=variant.pool) for node in history.nodes]
        said += remarks(variant.name, found, variant.rules, nodes)
    return PolicySimulation(history, terms, metrics, replay_policies(history, variants, terms, metrics, watch), said)
