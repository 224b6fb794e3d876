"""Replays a history once under several policies; each guards the nodes as ensurance would have done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slackwater.model.errors import InvalidInput
from slackwater.simulation.domain.fleet_run import FleetRun, watched_by, waterlines_of
from slackwater.simulation.domain.guard_tally import GuardTally
from slackwater.simulation.domain.guarded_run import GuardTerms
from slackwater.simulation.ports import SceneHistory, SimulationProgress
from slackwater.simulation.usecases.replay import PROGRESS_STEPS
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.rulebook import Rulebook


@dataclass(frozen=True, slots=True)
class PolicyVariant:
    """A named set of policy documents. `pool` is the pool of all nodes if the history has none."""

    name: str
    rules: Rulebook
    documents: Sequence[Mapping[str, Any]]
    """The documents as written, for display."""
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class GuardReplayed:
    """A variant with its totals."""

    variant: PolicyVariant
    tally: GuardTally


@dataclass(frozen=True, slots=True)
class PolicySimulation:
    """The history and every replayed variant; the first is the one in force. `remarks` list documents without effect
    on this history."""

    history: SceneHistory
    terms: GuardTerms
    metrics: Metrics
    replayed: Sequence[GuardReplayed]
    remarks: Sequence[str]


def replay_policies(
    history: SceneHistory,
    variants: Sequence[PolicyVariant],
    terms: GuardTerms,
    metrics: Metrics,
    watch: SimulationProgress,
) -> Sequence[GuardReplayed]:
    """Replays all variants with the same demand and measures all of them against every waterline of any variant.

    Raises InvalidInput if the control period does not divide the length of a scene."""
    period = round(history.period_seconds * 1000)
    if period % terms.every_ms:
        raise InvalidInput(
            f"--control: {terms.every_ms / 1000:g} s does not divide the sample of {history.period_seconds:g} s; "
            f"give a divisor, such as {history.period_seconds / 60:g}s or {history.period_seconds:g}s",
            field="control",
        )
    rulebooks = [variant.rules for variant in variants]
    waterlines = waterlines_of(rulebooks, metrics)
    watched = [watched_by(node, waterlines, rulebooks) for node in history.nodes]
    runs = []
    for variant in variants:
        nodes = history.nodes
        if variant.pool is not None:
            nodes = [replace(node, pool=variant.pool) for node in nodes]
        runs.append(FleetRun(nodes, variant.rules, metrics, terms, waterlines, watched))
    watch.begin("replaying", history.steps)
    at, done = round(history.start_seconds * 1000), 0
    for done, scenes in enumerate(history.scenes(), 1):
        for run in runs:
            run.play(scenes, at, at + period)
        at += period
        if done % PROGRESS_STEPS == 0:
            watch.advance(PROGRESS_STEPS)
    watch.advance(done % PROGRESS_STEPS)
    return [GuardReplayed(variant, run.tally) for variant, run in zip(variants, runs, strict=True)]
