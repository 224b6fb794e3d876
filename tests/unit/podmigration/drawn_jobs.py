"""Snapshots of migration drawn by hypothesis: few nodes, namespaces and workloads, so that jobs contend."""

from __future__ import annotations

from hypothesis import strategies as st

from slackwater.model.tiers import QoSClass
from slackwater.podmigration.budgets import DisruptionBudget
from slackwater.podmigration.limits import ArbitrationArgs, HoldFilter, JobHold, MigrationLimits, SkipGate
from slackwater.podmigration.rate import LimiterBucket, LimiterScope, ObjectLimiter
from slackwater.podmigration.snapshot import ActiveJob, MigrationSnapshot, WaitingJob, WorkloadReplicas

NOW_S = 10_000.0
NODES, NAMESPACES, WORKLOADS = ("n1", "n2", "n3", ""), ("a", "b"), ("w1", "w2", "w3", "", "unseen")
BUDGETS, BATCH_JOBS = ("p1", "p2"), ("", "", "j1", "j2")
amounts = st.one_of(st.none(), st.integers(1, 4), st.sampled_from(["10%", "50%", "100%"]))
budget_names = st.lists(st.sampled_from(BUDGETS), max_size=2, unique=True)


@st.composite
def waiting_jobs(draw: st.DrawFn, identity: int) -> WaitingJob:
    """A job of a pod; two jobs may be of the same one."""
    pod = draw(st.integers(0, 15))
    held = draw(st.booleans())
    return WaitingJob(
        id=f"job-{identity}",
        pod=f"pod-{pod}",
        namespace=NAMESPACES[pod % len(NAMESPACES)],
        node=NODES[pod // 2 % len(NODES)],
        workload=WORKLOADS[pod % len(WORKLOADS)],
        submitted_s=NOW_S - draw(st.sampled_from([0.0, 0.5, 1.0, 7.25, 20.0, -2.0])),
        pod_priority=draw(st.integers(0, 2)),
        priority=draw(st.integers(0, 1)),
        qos=draw(st.sampled_from(QoSClass)),
        batch_job=draw(st.sampled_from(BATCH_JOBS)),
        budgets=draw(budget_names),
        refusal=draw(st.sampled_from([""] * 5 + ["two budgets"])),
        paused=draw(st.sampled_from([False] * 5 + [True])),
        hold=JobHold(draw(st.sampled_from(HoldFilter)), draw(st.sampled_from(["", "w1", "n1"])), 1, 1, 5.0)
        if held
        else None,
    )


@st.composite
def active_jobs(draw: st.DrawFn, identity: int) -> ActiveJob:
    """A job under way, of a pod that may have a waiting job too."""
    pod = draw(st.integers(0, 25))
    evicted = draw(st.booleans())
    return ActiveJob(
        id=f"active-{identity}",
        pod=f"pod-{pod}",
        namespace=NAMESPACES[pod % len(NAMESPACES)],
        node=NODES[pod // 2 % len(NODES)],
        workload=WORKLOADS[pod % len(WORKLOADS)],
        batch_job=draw(st.sampled_from(BATCH_JOBS)),
        budgets=draw(budget_names),
        evicted=evicted,
        replacement=f"new-{identity}" if evicted and draw(st.booleans()) else "",
    )


@st.composite
def limits_drawn(draw: st.DrawFn) -> MigrationLimits:
    """Any of the limits on or off."""
    limiters = {}
    if draw(st.booleans()):
        limiters[LimiterScope.WORKLOAD] = ObjectLimiter(300.0, draw(amounts), draw(st.integers(1, 2)))
    if draw(st.booleans()):
        limiters[LimiterScope.NAMESPACE] = ObjectLimiter(60.0, draw(amounts), draw(st.integers(1, 3)))
    counts = st.one_of(st.none(), st.integers(0, 4))
    return MigrationLimits(
        draw(counts),
        draw(counts),
        draw(counts),
        draw(amounts),
        draw(amounts),
        draw(st.booleans()),
        frozenset(draw(st.lists(st.sampled_from(SkipGate), max_size=2))),
        limiters,
    )


@st.composite
def snapshots(draw: st.DrawFn) -> MigrationSnapshot:
    """Everything of it."""
    pods = st.integers(0, 25).map(lambda number: f"pod-{number}")
    return MigrationSnapshot(
        waiting=[draw(waiting_jobs(number)) for number in range(draw(st.integers(0, 14)))],
        active=[draw(active_jobs(number)) for number in range(draw(st.integers(0, 4)))],
        workloads={
            name: WorkloadReplicas(draw(st.sampled_from([0, 1, 2, 5, 30])), frozenset(draw(st.lists(pods, max_size=3))))
            for name in ("w1", "w2", "w3")
        },
        budgets={
            "p1": DisruptionBudget("p1", 5, draw(st.integers(0, 5)), min_available=draw(st.integers(0, 5))),
            "p2": DisruptionBudget("p2", 3, 3, max_unavailable="50%"),
        },
        limits=draw(limits_drawn()),
        args=ArbitrationArgs(
            draw(st.sampled_from([True, True, False])),
            1.0,
            draw(st.integers(0, 8)),
            1.2,
            draw(st.sampled_from([10, 2, 0])),
        ),
        queued=draw(st.integers(0, 2)),
        buckets={
            (LimiterScope.WORKLOAD, "w1"): LimiterBucket(draw(st.sampled_from([0.0, 0.5, 1.0])), NOW_S - 30),
            (LimiterScope.NAMESPACE, "a"): LimiterBucket(0.25, NOW_S - draw(st.sampled_from([0, 30, 90]))),
        },
    )
