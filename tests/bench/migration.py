"""Arbitration of waiting jobs and a round of LowNodeLoad: CPU time, and the ratio to a scan of all jobs per job.

The plain scan is the form of the field: for each waiting job, each limit counts over the list of all jobs. It is timed
at 2,000 jobs, because it is quadratic; its ratio grows with the number of jobs.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.bench.verdict import Scale, Target

from slackwater.descheduling.builtin import DefaultEvictor
from slackwater.descheduling.cycle import CycleGate, CycleLimits
from slackwater.descheduling.evictability import EvictorSettings
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPool, balance
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.placement import ClusterPlacement, PlacedPod, PlacementNode
from slackwater.model.tiers import QoSClass, Tier
from slackwater.podmigration.batched import arbitrate
from slackwater.podmigration.budgets import DisruptionBudget, workload_budget
from slackwater.podmigration.job_order import in_rank_order
from slackwater.podmigration.limits import MigrationLimits
from slackwater.podmigration.snapshot import ActiveJob, MigrationSnapshot, WaitingJob, WorkloadReplicas

JOBS, MANY_JOBS, PLAIN_JOBS, ACTIVE = 10_000, 100_000, 2_000, 500
SIZES, PODS = (100, 1_000, 5_000), 30
TARGET_JOBS_SECONDS, TARGET_MANY_SECONDS, TARGET_RATIO = 0.2, 2.0, 20.0
TARGET_ROUND_SECONDS, TARGET_GROWTH = 3.0, 2.0
_NODES, _WORKLOADS, _NAMESPACES = 5_000, 2_000, 50
_NOW_S = 1000.0


def measure() -> dict[str, Any]:
    """Measures both; the targets are those of issue 27."""
    arbitration = {jobs: _arbitration(jobs) for jobs in (JOBS, MANY_JOBS)}
    ratio = _beside_the_plain_scan()
    rounds = {nodes: _low_node_load(nodes) for nodes in SIZES}
    small, large = SIZES[0], SIZES[-1]
    growth = (rounds[large]["seconds"] / large) / (rounds[small]["seconds"] / small)
    return {
        "targets": (
            Target("arbitration of 10,000 waiting jobs", arbitration[JOBS], TARGET_JOBS_SECONDS, "s", Scale.TIME),
            Target("of 100,000", arbitration[MANY_JOBS], TARGET_MANY_SECONDS, "s", Scale.TIME),
            Target("plain scan of 2,000 jobs, as a multiple", ratio, TARGET_RATIO, at_least=True),
            Target("LowNodeLoad, 5,000 nodes", rounds[large]["seconds"], TARGET_ROUND_SECONDS, "s", Scale.TIME),
            Target("time per node at 5,000 nodes to that at 100", growth, TARGET_GROWTH),
        ),
        "arbitration_seconds": {str(jobs): round(seconds, 4) for jobs, seconds in arbitration.items()},
        "plain_scan_ratio": round(ratio, 1),
        "low_node_load": {str(nodes): found for nodes, found in rounds.items()},
        "growth_per_node": round(growth, 2),
    }


def _arbitration(jobs: int) -> float:
    chosen = snapshot(jobs)
    return _median(lambda: arbitrate(chosen, _NOW_S))


def snapshot(jobs: int) -> MigrationSnapshot:
    """Returns jobs of 2,000 workloads on 5,000 nodes, with budgets, beside 500 that are under way."""
    chance = random.Random(27)
    classes = list(QoSClass)

    def waiting(number: int) -> WaitingJob:
        workload = chance.randrange(_WORKLOADS)
        return WaitingJob(
            f"job-{number}",
            f"pod-{number}",
            f"ns-{workload % _NAMESPACES}",
            f"node-{chance.randrange(_NODES)}",
            f"workload-{workload}",
            _NOW_S - chance.randrange(60),
            chance.randrange(3000, 10_000),
            chance.randrange(3),
            classes[chance.randrange(len(classes))],
            f"batch-{workload}" if workload % 3 == 0 else "",
            (f"budget-{workload}",),
        )

    def active(number: int) -> ActiveJob:
        workload = chance.randrange(_WORKLOADS)
        node = f"node-{chance.randrange(_NODES)}"
        return ActiveJob(f"active-{number}", f"moving-{number}", f"ns-{workload % 50}", node, f"workload-{workload}")

    names = [f"budget-{number}" for number in range(_WORKLOADS)]
    return MigrationSnapshot(
        waiting=[waiting(number) for number in range(jobs)],
        active=[active(number) for number in range(ACTIVE)],
        workloads={f"workload-{number}": WorkloadReplicas(100) for number in range(_WORKLOADS)},
        budgets={name: DisruptionBudget(name, 100, 100, max_unavailable="5%") for name in names},
        limits=MigrationLimits(max_migrating_globally=2_000, max_migrating_per_namespace=40),
    )


def _beside_the_plain_scan() -> float:
    """Compares both results before either is timed."""
    plain = snapshot(PLAIN_JOBS)
    waiting = [replace(job, budgets=()) for job in plain.waiting]
    limits = replace(plain.limits, object_limiters={})
    chosen = replace(plain, waiting=waiting, limits=limits)
    if list(arbitrate(chosen, _NOW_S).admitted) != plain_scan(chosen, _NOW_S):
        raise RuntimeError("the arrays and the plain scan have different results")
    ours = _median(lambda: arbitrate(chosen, _NOW_S))
    return _median(lambda: plain_scan(chosen, _NOW_S), rounds=1) / ours


def plain_scan(chosen: MigrationSnapshot, now_s: float) -> list[str]:
    """Returns what is admitted by global, node, namespace and workload limits, from one list of jobs with a state:
    GroupFilter for every job, then Select."""
    limits = chosen.limits
    batch = {job.batch_job for job in chosen.active if job.batch_job}
    passed: set[str] = {job.id for job in chosen.active}
    every: list[WaitingJob | ActiveJob] = [*chosen.active, *chosen.waiting]
    admitted: list[str] = []
    for job in in_rank_order(chosen.waiting, batch, now_s):
        replicas = chosen.workloads[job.workload].replicas
        migrating = workload_budget(replicas, limits.max_migrating_per_workload)
        checks = (
            (limits.max_migrating_globally, [one for one in every if one.id in passed]),
            (limits.max_migrating_per_node, [one for one in every if one.id in passed and one.node == job.node]),
            (
                limits.max_migrating_per_namespace,
                [one for one in every if one.id in passed and one.namespace == job.namespace],
            ),
            (migrating, [one for one in every if one.id in passed and one.workload == job.workload]),
        )
        if all(limit is None or len(found) < limit for limit, found in checks):
            passed.add(job.id)
            admitted.append(job.id)
    return admitted[: chosen.args.selectable(chosen.queued)]


def _low_node_load(nodes: int) -> dict[str, Any]:
    placement = cluster(nodes)
    pool = LowNodeLoadPool("all", {"cpu": 45, "memory": 55}, {"cpu": 65, "memory": 80})
    args = LowNodeLoadArgs([pool], anomaly=None)

    def round_of() -> int:
        gate = CycleGate([DefaultEvictor(EvictorSettings())], CycleLimits(), {}, RestRules(), {}, _NOW_S)
        return len(balance(placement, args, {}, _NOW_S, gate).proposals)

    return {"seconds": round(_median(round_of, rounds=3), 3), "proposals": round_of(), "pods": nodes * PODS}


def cluster(nodes: int) -> ClusterPlacement:
    """Returns nodes of 32 cores with 30 pods each: a tenth hot, a third low."""
    chance = random.Random(27)
    found, pods = [], {}
    for number in range(nodes):
        name = f"node-{number}"
        found.append(PlacementNode(name, {"cpu": 32_000, "memory": 2**37, "pods": 110}))
        share = 0.8 if number % 10 == 0 else 0.3 if number % 3 == 0 else 0.55
        pods[name] = [
            PlacedPod(
                uid := f"pod-{number}-{place}",
                uid,
                "default",
                name,
                f"workload-{number}-{place}",
                ("ReplicaSet",),
                tier=Tier.PROD if place % 2 else Tier.BATCH,
                created_s=float(place),
                requests={"cpu": 500, "memory": 2**30},
                usage={
                    "cpu": int(32_000 * share / PODS * (0.5 + chance.random())),
                    "memory": int(2**37 * 0.4 / PODS),
                },
            )
            for place in range(PODS)
        ]
    return ClusterPlacement(found, pods)


def _median(call: Callable[[], Any], rounds: int = 3) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return statistics.median(taken)
