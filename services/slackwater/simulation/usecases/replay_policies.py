"""One pass over a history, several policies side by side: each guards the nodes as ensurance would have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slackwater.model.errors import InvalidInput
from slackwater.simulation.domain.fleet_run import FleetRun, watched_by, waterlines_of
from slackwater.simulation.domain.guard_tally import GuardTally
from slackwater.simulation.domain.guarded_run import GuardTerms
from slackwater.simulation.ports import SceneHistory, SimulationProgress
from slackwater.simulation.usecases.replay import TOLD_EVERY
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.rulebook import Rulebook


@dataclass(frozen=True, slots=True)
class PolicyVariant:
    """All policy documents that count together, under a name. `pool`: of all nodes, where the history knows of none."""

    name: str
    rules: Rulebook
    documents: Sequence[Mapping[str, Any]]
    """As an operator writes them; for people."""
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class GuardReplayed:
    """A variant and what became of the history under it."""

    variant: PolicyVariant
    tally: GuardTally


@dataclass(frozen=True, slots=True)
class PolicySimulation:
    """What was replayed, and every variant: what is in force first. `remarks`: what in the documents does nothing
    here."""

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
    """All variants see the same wishes. All are measured against every waterline that any of them draws. Raises
    InvalidInput where the looks do not fit into the scenes."""
    period = round(history.period_seconds * 1000)
    if period % terms.every_ms:
        raise InvalidInput(
            f"--control: {terms.every_ms / 1000:g} s do not fit into samples of {history.period_seconds:g} s; "
            f"give a part of it, such as {history.period_seconds / 60:g}s or {history.period_seconds:g}s",
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
        if done % TOLD_EVERY == 0:
            watch.advance(TOLD_EVERY)
    watch.advance(done % TOLD_EVERY)
    return [GuardReplayed(variant, run.tally) for variant, run in zip(variants, runs, strict=True)]
