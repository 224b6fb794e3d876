"""Whole rounds of the services: what `migration` measures of the libraries, from the state that is kept and the view of
the cluster to the next state and the proposals. CPU time; storing and publishing are left out."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.bench.migration import snapshot as arbitrated
from tests.bench.verdict import Scale, Target
from tests.support.clock import EPOCH
from tests.support.reports import GIB, described, pod_usage, report

from slackwater.cluster.fold import ClusterFold
from slackwater.descheduler.domain.cluster_placement import placement_of
from slackwater.descheduler.domain.kept_plans import kept_plan
from slackwater.descheduler.domain.plan_gain import imbalances_of
from slackwater.descheduler.usecases.cycle_records import cycle_record, outcome_of
from slackwater.descheduler.usecases.plan_records import step_events
from slackwater.descheduling.cycle import CycleLimits
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPool
from slackwater.descheduling.placement import LoadSource
from slackwater.descheduling.profile import CycleTrigger, DeclaredProfile
from slackwater.descheduling.profile_cycle import run_profile
from slackwater.events.envelope import event_of
from slackwater.events.pod_columns import by_columns
from slackwater.migration.domain.arbitration_round import after_plan, snapshot_of
from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import ArbitrationState, MigrationLedger, MovedPod, StoredJob
from slackwater.model.tiers import Tier
from slackwater.podmigration.batched import arbitrate
from slackwater.podmigration.documents import ArbitrationRules, JobRequest
from slackwater.podmigration.jobs import MigrationJob
from slackwater.podmigration.limits import MigrationLimits
from slackwater.runtime.gc_tuning import tune_gc

JOBS, MANY_JOBS = 10_000, 100_000
SIZES, PODS = (100, 1_000, 5_000), 30
TARGET_JOBS_SECONDS, TARGET_MANY_SECONDS = 0.2, 2.0
TARGET_CYCLE_SECONDS, TARGET_GROWTH = 3.0, 2.0
_NOW = EPOCH + timedelta(seconds=60)
_SHARES = {"cpu": 0.8, "memory": 0.85}


def measure() -> dict[str, Any]:
    """Measures both services; the targets are those of issue 27, for the whole round instead of its kernel."""
    rounds = {jobs: _round(jobs) for jobs in (JOBS, MANY_JOBS)}
    cycles = {nodes: _cycle(nodes) for nodes in SIZES}
    small, large = SIZES[0], SIZES[-1]
    growth = (cycles[large]["seconds"] / large) / (cycles[small]["seconds"] / small)
    return {
        "targets": (
            Target("round with 10,000 new jobs", rounds[JOBS]["first"], TARGET_JOBS_SECONDS, "s", Scale.TIME),
            Target("with 100,000", rounds[MANY_JOBS]["first"], TARGET_MANY_SECONDS, "s", Scale.TIME),
            Target(
                "cycle of the descheduler, 5,000 nodes", cycles[large]["seconds"], TARGET_CYCLE_SECONDS, "s", Scale.TIME
            ),
            Target("time per node at 5,000 nodes to that at 100", growth, TARGET_GROWTH),
        ),
        "round_seconds": {str(jobs): found for jobs, found in rounds.items()},
        "cycle": {str(nodes): found for nodes, found in cycles.items()},
        "growth_per_node": round(growth, 2),
    }


def _round(jobs: int) -> dict[str, float]:
    """`first`: every job is new, and each is given what holds it. `later`: the same jobs in the next round."""
    ledger, seen = _ledger(jobs)
    rules = ArbitrationRules(limits=MigrationLimits(max_migrating_globally=2_000, max_migrating_per_namespace=40))
    now_s = _NOW.timestamp()

    def after(before: MigrationLedger) -> MigrationLedger:
        state, found = after_plan(before, arbitrate(snapshot_of(before, seen, rules, now_s), now_s), seen, now_s)
        return MigrationLedger(state, found)

    held = after(after(ledger))
    with _gc_of_services():
        first, later = _median(lambda: after(ledger)), _median(lambda: after(held))
    return {"first": round(first, 4), "later": round(later, 4)}


@contextmanager
def _gc_of_services() -> Iterator[None]:
    """The garbage collector as services run with it."""
    before = gc.get_threshold()
    tune_gc()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def _ledger(jobs: int) -> tuple[MigrationLedger, SeenCluster]:
    """The jobs of the figure `migration`, as the service keeps them."""
    drawn, stored = arbitrated(jobs), dict[str, StoredJob]()
    for waiting in drawn.waiting:
        moved = MovedPod(
            uid=waiting.pod,
            namespace=waiting.namespace,
            workload=waiting.workload,
            qos=waiting.qos,
            priority=waiting.pod_priority,
        )
        job = MigrationJob(waiting.id, waiting.pod, waiting.node, _NOW.timestamp() - 60)
        stored[waiting.id] = StoredJob(job, JobRequest(waiting.id, priority=waiting.priority), moved)
    replicas = {name: workload.replicas for name, workload in drawn.workloads.items()}
    return MigrationLedger(ArbitrationState(), stored), SeenCluster(replicas=replicas)


def _cycle(nodes: int) -> dict[str, Any]:
    """A cycle of a profile with LowNodeLoad on measured load, from the events that were folded."""
    fold = ClusterFold()
    for number in range(nodes):
        _describe(fold, number)
    pool = LowNodeLoadPool("all", {"cpu": 45, "memory": 55}, {"cpu": 65, "memory": 80})
    profile = DeclaredProfile(
        "default", limits=CycleLimits(), low_node_load=LowNodeLoadArgs([pool], load=LoadSource.MEASURED, anomaly=None)
    )
    found = {"moves": 0}

    def cycle() -> None:
        cluster = placement_of(fold.view(_NOW), profile.scope, shares=_SHARES)
        plan = run_profile(cluster, profile, {}, {}, _NOW.timestamp())
        outcome_of(profile, plan)
        record = cycle_record(profile, 1, CycleTrigger.INTERVAL, plan, {"nodes": nodes}, None, _NOW)
        imbalances = imbalances_of(cluster, plan.moves, profile.basis)
        kept = kept_plan(profile, plan, cluster, "plan", imbalances, _NOW.timestamp())
        found["moves"] = len(step_events(profile, 1, kept.steps, record.id, _NOW))

    with _gc_of_services():
        seconds = _median(cycle)
    return {"seconds": round(seconds, 3), "pods": nodes * PODS, **found}


def _describe(fold: ClusterFold, number: int) -> None:
    """A node of 32 cores with 30 pods: of ten nodes one is hot, three are low."""
    name, share = f"node-{number}", 0.8 if number % 10 == 0 else 0.3 if number % 3 == 0 else 0.55
    cpu_milli = int(32_000 * share / PODS)
    pods = []
    for place in range(PODS):
        used = pod_usage(f"{name}-{place}", Tier.PROD if place % 2 else Tier.BATCH, cpu_milli)
        pods.append(replace(used, pod=replace(used.pod, workload=f"default/web-{number}-{place}")))
    data = report(name, 1, _NOW, cpu_milli=cpu_milli * PODS)
    data = data.model_copy(update={"pods": by_columns(pods)})
    for event in (described(name, EPOCH, 32_000, 128 * GIB), data):
        fold.apply(event_of(event, source="bench", time=EPOCH, id="bench"))


def _median(call: Callable[[], Any], rounds: int = 3) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return statistics.median(taken)
