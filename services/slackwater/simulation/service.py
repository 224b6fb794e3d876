"""Composition root of simulation and assessment: combines a history with documents, one function per command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.api_answers import ApiReader
from slackwater.simulation.adapters.document_files import DocumentFile
from slackwater.simulation.adapters.peak_models import models_of
from slackwater.simulation.adapters.policy_files import (
    all_remarks,
    read_policies,
    set_in_force,
    sets_in_place,
    sets_on_trace,
)
from slackwater.simulation.adapters.profile_files import read_profiles
from slackwater.simulation.adapters.prometheus import Prometheus, TimeRange
from slackwater.simulation.adapters.prometheus_usage import LOOKS, QUERIES, read
from slackwater.simulation.adapters.quota_files import read_quotas
from slackwater.simulation.adapters.recorded_history import recorded
from slackwater.simulation.adapters.recorded_scenes import recorded_scenes
from slackwater.simulation.adapters.strategy_files import (
    base_of,
    default_variant,
    documents_in_force,
    for_nodes,
    notes_on_predictions,
    read_all,
    variants,
    variants_in_place,
)
from slackwater.simulation.adapters.trace_scenes import BatchLayout, TraceScenes, squeezed
from slackwater.simulation.adapters.trace_source import history_of
from slackwater.simulation.ports import SimulationProgress
from slackwater.simulation.settings import AssessmentOptions, PolicyTerms, PrometheusOrder, RecordedOrder, TraceOrder
from slackwater.simulation.usecases.assess import Assessment, assess
from slackwater.simulation.usecases.replay import Simulation, replay
from slackwater.simulation.usecases.replay_moves import MoveSimulation, replay_moves
from slackwater.simulation.usecases.replay_policies import PolicySimulation, replay_policies
from slackwater.simulation.usecases.replay_quotas import QuotaSimulation, QuotaTerms, QuotaVariant, replay_quotas
from slackwater.traces.readers.arrivals import read_arrivals
from slackwater.waterline.registry.plugins import all_metrics

MOVED_PER_NODE: Final = 10
"""Pods per node where none are named: one whole machine per node has nothing to move."""


def simulate_trace(files: Sequence[DocumentFile], order: TraceOrder, watch: SimulationProgress) -> Simulation:
    """Raises InvalidInput for invalid options and files, Misconfigured for a missing library."""
    tried = [default_variant(), *variants(files)]  # first: a misspelt field fails before the trace is read
    history = history_of(order, watch)
    return Simulation(history, replay(history, tried, watch))


def assess_trace(order: TraceOrder, tried: AssessmentOptions, watch: SimulationProgress) -> Assessment:
    """Raises InvalidInput, Misconfigured."""
    models = models_of(tried)
    return assess(history_of(order, watch).placed, models, tried.percents, tried.accepted, watch)


def assess_prometheus(
    order: PrometheusOrder, tried: AssessmentOptions, now_seconds: float, watch: SimulationProgress
) -> Assessment:
    """Assesses from metrics in a Prometheus, read only. Raises InvalidInput, Misconfigured, Unavailable, NotFound."""
    models = models_of(tried)
    end = int(now_seconds) // order.step_seconds * order.step_seconds
    span = TimeRange(end - order.since_seconds, end, order.step_seconds)
    watch.begin("reading from Prometheus", QUERIES * len(list(span.pages())) + LOOKS)
    server = Prometheus(order.client, order.retries, advance=lambda: watch.advance(1))
    placed_pods = read(server, span, str(order.client.base_url).rstrip("/"), order.selector)
    return assess(placed_pods, models, tried.percents, tried.accepted, watch)


def simulate_recorded(
    files: Sequence[DocumentFile], order: RecordedOrder, now: datetime, watch: SimulationProgress
) -> Simulation:
    """Compares with the strategies in force. A file replaces the documents of the same names. A single document that
    selects no node is simulated as the cluster's. Raises InvalidInput, NotFound, and what the API raises."""
    documents = read_all(files)  # first: a misspelt field fails before the history is read
    history = recorded(order.reads, order.since_seconds, order.step_seconds, now, watch)
    in_force = documents_in_force(order.reads)
    base = base_of(in_force)
    states = [record.described for record in history.records]
    current = for_nodes("in force", in_force, states, base)
    variants, notes = variants_in_place(documents, in_force, states, base)
    notes = [*history.notes, *notes, *notes_on_predictions(current, variants)]
    history = replace(history, strategy=current.strategies[0], notes=notes)
    return Simulation(history, replay(history, [current, *variants], watch))


def simulate_policies_on_trace(
    files: Sequence[DocumentFile], order: TraceOrder, given: PolicyTerms, watch: SimulationProgress
) -> PolicySimulation:
    """Compares with ensurance's default policy. A trace has no labels and no pools: every NodeQOS applies to all nodes,
    and the only Autonomy of a file to all nodes as one pool. Raises InvalidInput, Misconfigured."""
    metrics = all_metrics()
    sets, variants = sets_on_trace(files, metrics)
    history = history_of(order, watch)
    history = replace(history, placed=squeezed(history.placed, given.batch))
    scenes = TraceScenes(history, given.batch, default_variant().decide())
    notes = all_remarks(variants, sets, scenes.nodes)
    replayed = replay_policies(scenes, variants, given.terms, metrics, watch)
    return PolicySimulation(scenes, given.terms, metrics, replayed, notes)


def simulate_policies_recorded(
    files: Sequence[DocumentFile],
    reads: ApiReader,
    since_seconds: int,
    given: PolicyTerms,
    now: datetime,
    watch: SimulationProgress,
) -> PolicySimulation:
    """Compares with the policies in force. A file replaces documents of the same kinds and names, as `apply` does.
    Raises InvalidInput, NotFound, and what the API raises."""
    metrics = all_metrics()
    documents = [(file, read_policies(file, metrics)) for file in files]
    sets, variants = sets_in_place(documents, set_in_force(reads, metrics), metrics)
    history = recorded_scenes(reads, since_seconds, now, watch)
    notes = all_remarks(variants, sets, history.nodes)
    replayed = replay_policies(history, variants, given.terms, metrics, watch)
    return PolicySimulation(history, given.terms, metrics, replayed, notes)


def simulate_moves(
    files: Sequence[DocumentFile], order: TraceOrder, overcommit: float, watch: SimulationProgress
) -> MoveSimulation:
    """Replays a trace with the profiles of the files, with nothing and with thresholds alone. Raises InvalidInput,
    Misconfigured."""
    profiles = read_profiles(files)  # first: a misspelt field fails before the trace is read
    if order.churn_days is not None:
        raise InvalidInput("--churn: does not apply to descheduler profiles, which move the pods", field="churn")
    history = history_of(replace(order, per_node=order.per_node or MOVED_PER_NODE), watch)
    placed = squeezed(history.placed, BatchLayout(overcommit=overcommit))
    return replay_moves(placed, (history.first, history.stop), profiles, watch)


def simulate_quotas(
    files: Sequence[DocumentFile], path: Path, terms: QuotaTerms, watch: SimulationProgress
) -> QuotaSimulation:
    """Replays the arrivals of a trace, with the quotas of the first file as hard ones and through the arbiter with
    those of each file. Raises InvalidInput."""
    read = [read_quotas(file) for file in files]  # first: a misspelt field fails before the trace is read
    watch.begin("reading the trace", None)
    trace = read_arrivals(path, watch.advance)
    variants = [
        QuotaVariant(found.name, found.layout, found.leaves, found.queue_policies, found.percent) for found in read
    ]
    return replay_quotas(trace, variants, terms, watch)
