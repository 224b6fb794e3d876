"""What arbitration reads: waiting jobs, jobs under way, workloads, budgets. Snapshots, without behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from slackwater.model.records import record
from slackwater.model.tiers import QoSClass
from slackwater.podmigration.budgets import DisruptionBudget
from slackwater.podmigration.limits import ArbitrationArgs, JobHold, MigrationLimits
from slackwater.podmigration.rate import LimiterBucket, LimiterScope


@record(frozen=True, slots=True)
class WaitingJob:
    """A job that is not admitted yet, with what its pod was when the snapshot was made."""

    id: str
    pod: str
    """UID."""
    namespace: str
    node: str
    """Empty: the pod is on no node, so no limit by node applies."""
    workload: str
    """Empty: the pod has no owner, so no limit by workload applies."""
    submitted_s: float
    pod_priority: int = 0
    priority: int = 0
    """Of the migration; higher goes first."""
    qos: QoSClass = QoSClass.LS
    batch_job: str = ""
    """The batch job that owns the pod, whose members are moved together. Empty: none."""
    budgets: Sequence[str] = ()
    """Disruption budgets that select the pod."""
    refusal: str = ""
    """Why its pod can never be evicted."""
    paused: bool = False
    hold: JobHold | None = None
    """Why it waited after the last round."""


@record(frozen=True, slots=True)
class ActiveJob:
    """A job that is admitted and has not ended."""

    id: str
    pod: str
    namespace: str
    node: str
    """Where the old pod is or was."""
    workload: str
    batch_job: str = ""
    budgets: Sequence[str] = ()
    evicted: bool = False
    """The old pod is gone, so its budgets already count it as not healthy."""
    replacement: str = ""
    """UID of the new pod, where one is bound; counted once with the job, although it is not ready yet."""


@record(frozen=True, slots=True)
class WorkloadReplicas:
    """Size and state of a workload. Zero replicas: the owner is known and has none."""

    replicas: int
    unready: frozenset[str] = frozenset()
    """UIDs of pods that are not ready, or are ending."""


@record(frozen=True, slots=True)
class MigrationSnapshot:
    """Everything that a round of arbitration depends on."""

    waiting: Sequence[WaitingJob]
    """In the order of submission: what ties are broken by."""
    active: Sequence[ActiveJob] = ()
    workloads: Mapping[str, WorkloadReplicas] = field(default_factory=dict)
    budgets: Mapping[str, DisruptionBudget] = field(default_factory=dict)
    limits: MigrationLimits = MigrationLimits()
    args: ArbitrationArgs = ArbitrationArgs()
    queued: int = 0
    """Admitted jobs that the queue has not started yet."""
    buckets: Mapping[tuple[LimiterScope, str], LimiterBucket] = field(default_factory=dict)
    """Of the object limiters, by scope and workload or namespace; absent ones are full."""
    ranked: Sequence[str] | None = None
    """Ids in the order of sort plugins; None: the five keys of the proposal."""
    held: Mapping[str, str] = field(default_factory=dict)
    """By id, why a filter plugin holds the job."""
    problems: Sequence[str] = ()
    """Of sort plugins whose result was not used."""


@record(frozen=True, slots=True)
class MigrationPlan:
    """The outcome of a round."""

    admitted: Sequence[str]
    """In rank order."""
    refused: Sequence[str]
    """For good: the workload cannot spare a replica, or the job has a refusal."""
    holds: Mapping[str, JobHold]
    """Of every other job."""
    buckets: Mapping[tuple[LimiterScope, str], LimiterBucket]
    """Those that changed."""
