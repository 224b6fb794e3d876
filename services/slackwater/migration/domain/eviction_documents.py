"""The intent documents of nodes: which evictions and starts they hold, when they are declared, and until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import NodeDocument, StoredJob
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.records import record
from slackwater.podmigration.jobs import MigrationStep
from slackwater.podmigration.lifecycle import desired_state

AGAIN_S: Final = 10.0
"""A document that the agent has not answered for so long is declared again: the broker may have lost it."""
START_AGAIN_S: Final = 30.0
"""A start that the agent has taken up, and whose end is not known for so long, is declared again: the agent repeats its
answer, and the broker may have lost the one before. Longer than a start usually takes."""
REFUSED_S: Final = 30.0
"""Pause before an eviction that did not begin is asked for again, under another id."""


@record(frozen=True, slots=True)
class DeclaredNode:
    """A document that is to be declared for a node."""

    node: str
    generation: int
    jobs: tuple[StoredJob, ...]
    """Whose evictions it holds; empty: it withdraws all."""
    starts: tuple[StoredJob, ...] = ()
    """Whose replacements it starts."""


def wanted_evictions(jobs: Mapping[str, StoredJob], seen: SeenCluster) -> dict[str, list[StoredJob]]:
    """Returns by node the jobs whose evictions are wanted and not answered yet."""
    found: dict[str, list[StoredJob]] = {}
    for _, stored in sorted(jobs.items()):
        if desired_state(stored.job).eviction and stored.eviction_key not in seen.evictions:
            found.setdefault(stored.job.node, []).append(stored)
    return found


def wanted_starts(jobs: Mapping[str, StoredJob]) -> dict[str, list[StoredJob]]:
    """Returns by node the jobs whose replacements are wanted there. A start stays declared until its job has ended, so
    that the agent's last answer holds it for a process that starts again."""
    found: dict[str, list[StoredJob]] = {}
    for _, stored in sorted(jobs.items()):
        if stored.job.step is MigrationStep.REPLACING and desired_state(stored.job).replacement:
            found.setdefault(stored.job.start_node, []).append(stored)
    return found


def documents_after(
    documents: Mapping[str, NodeDocument],
    jobs: Mapping[str, StoredJob],
    seen: SeenCluster,
    generation: int,
    now_s: float,
) -> tuple[dict[str, NodeDocument], Sequence[DeclaredNode]]:
    """Returns the documents after a round, and those to declare in `generation`. One that holds nothing is kept until
    its agent has answered it."""
    wanted, starting = wanted_evictions(jobs, seen), wanted_starts(jobs)
    after: dict[str, NodeDocument] = {}
    declared = []
    for node in sorted(documents.keys() | wanted.keys() | starting.keys()):
        before, evicting, begun = documents.get(node), wanted.get(node, []), starting.get(node, [])
        ids = tuple(stored.eviction_id for stored in evicting)
        starts = tuple(stored.start_id for stored in begun)
        observed, _ = seen.observed.get(node, (0, 0.0))
        if before is not None and (before.evictions, before.starts) == (ids, starts):
            is_observed = observed >= before.generation
            if is_observed and not ids and not starts:
                continue
            again_s = START_AGAIN_S if is_observed else AGAIN_S
            if (is_observed and not starts) or abs(now_s - before.declared_s) < again_s:
                after[node] = before
                continue
        after[node] = NodeDocument(generation, ids, now_s, starts)
        declared.append(DeclaredNode(node, generation, tuple(evicting), tuple(begun)))
    return after, declared


def with_withdrawals(
    jobs: Mapping[str, StoredJob], documents: Mapping[str, NodeDocument], generation: int
) -> dict[str, StoredJob]:
    """Returns the jobs with the generation of the document that withdraws their eviction."""
    found = dict(jobs)
    for name, stored in jobs.items():
        if stored.job.step is MigrationStep.WITHDRAWING and not stored.withdrawn_generation:
            document = documents.get(stored.job.node)
            since = generation if document is None else document.generation
            found[name] = replace(stored, withdrawn_generation=since)
    return found


def asked_again(stored: StoredJob, seen: SeenCluster, now_s: float) -> StoredJob:
    """Returns an evicting job with a new attempt, once its eviction expired long enough ago. Its pod was not evicted so
    far, so a replacement starts from now on."""
    said = seen.evictions.get(stored.eviction_key)
    if stored.job.step is not MigrationStep.EVICTING or said is None:
        return stored
    if EvictionOutcome(said.outcome) is not EvictionOutcome.EXPIRED:
        return stored
    if stored.refused_s is None or stored.refused_s < said.completed_s:
        stored = replace(stored, refused_s=max(said.completed_s, stored.evicting_s or 0.0))
    since_s = stored.refused_s if stored.refused_s is not None else now_s
    if abs(now_s - since_s) < REFUSED_S:
        return stored
    return replace(stored, attempt=stored.attempt + 1, evicting_s=now_s)
