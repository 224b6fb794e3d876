"""What holds migrations back: limits, the arguments of arbitration, and how a held job is explained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from slackwater.model.records import record
from slackwater.podmigration.budgets import IntOrPercent
from slackwater.podmigration.rate import LimiterScope, ObjectLimiter


class SkipGate(StrEnum):
    """Checks that can be switched off by name. Names as in koordinator's SkipEvictionGates."""

    MAX_UNAVAILABLE_PER_WORKLOAD = "MaxUnavailablePerWorkload"
    MAX_MIGRATING_PER_WORKLOAD = "MaxMigratingPerWorkload"
    MAX_MIGRATING_PER_NODE = "MaxMigratingPerNode"
    MAX_MIGRATING_PER_NAMESPACE = "MaxMigratingPerNamespace"
    MAX_MIGRATING_GLOBALLY = "MaxMigratingGlobally"
    EXPECTED_REPLICAS = "ExpectedReplicas"
    PVC = "PVC"
    BARE_PODS = "BarePods"
    LOCAL_STORAGE = "LocalStorage"
    SYSTEM_CRITICAL = "SystemCritical"
    PRIORITY_THRESHOLD = "PriorityThreshold"
    LABEL_SELECTOR = "LabelSelector"
    NAMESPACES = "Namespaces"
    NODE_FIT = "NodeFit"


@record(frozen=True, slots=True)
class MigrationLimits:
    """Limits on migrations that are under way. None or 0 of a count: no limit. Defaults as in koordinator."""

    max_migrating_globally: int | None = None
    max_migrating_per_node: int | None = 2
    max_migrating_per_namespace: int | None = None
    max_migrating_per_workload: IntOrPercent | None = None
    """None: by the size of the workload."""
    max_unavailable_per_workload: IntOrPercent | None = None
    """None: by the size of the workload."""
    skip_check_expected_replicas: bool = False
    skip_gates: frozenset[SkipGate] = frozenset()
    object_limiters: Mapping[LimiterScope, ObjectLimiter] = field(
        default_factory=lambda: {LimiterScope.WORKLOAD: ObjectLimiter(window_s=300.0)}
    )

    def of(self, gate: SkipGate) -> int | None:
        """Returns the limit that a gate names, globally, by node or by namespace; None where nothing is limited."""
        value = {
            SkipGate.MAX_MIGRATING_GLOBALLY: self.max_migrating_globally,
            SkipGate.MAX_MIGRATING_PER_NODE: self.max_migrating_per_node,
            SkipGate.MAX_MIGRATING_PER_NAMESPACE: self.max_migrating_per_namespace,
        }[gate]
        return None if gate in self.skip_gates or value is None or value <= 0 else value

    @property
    def checks_expected_replicas(self) -> bool:
        """Whether a workload that cannot spare a replica is refused."""
        return not self.skip_check_expected_replicas and SkipGate.EXPECTED_REPLICAS not in self.skip_gates


@record(frozen=True, slots=True)
class ArbitrationArgs:
    """Source: koordinator's proposal 20230707 (eviction arbitration), revision of 2023-07-21."""

    enabled: bool = True
    """False: jobs pass in the order of submission and without Select. Limits hold all the same."""
    interval_s: float = 60.0
    process_queue_qps: float = 3.0
    job_select_ratio: float = 1.2
    """Of the jobs that the queue processes in an interval: how many a round may have in the queue."""
    overdue_intervals: int = 10
    """Jobs that have waited so many intervals go before all others, the longest waiting first; 0: none does."""

    def selectable(self, queued: int) -> int:
        """Returns how many jobs a round selects, with `queued` jobs still in the queue. Rounded up, so that a slow
        queue gets one, as with an interval of 0: then a round is due at once."""
        whole = math.ceil(self.process_queue_qps * self.interval_s * self.job_select_ratio - 1e-9)
        return max(max(whole, 1) - queued, 0)


class HoldFilter(StrEnum):
    """Which filter holds a job, in the order in which they are checked."""

    PAUSED = "paused"
    POD_MIGRATING = "pod_migrating"
    """Another job moves this pod."""
    WORKLOAD_UNKNOWN = "workload_unknown"
    """The snapshot has no replicas for it; they may be seen later."""
    PLUGIN = "plugin"
    WORKLOAD_MIGRATING = "workload_migrating"
    WORKLOAD_UNAVAILABLE = "workload_unavailable"
    NODE = "node"
    NAMESPACE = "namespace"
    GLOBAL = "global"
    DISRUPTION_BUDGET = "disruption_budget"
    WORKLOAD_LIMITER = "workload_limiter"
    NAMESPACE_LIMITER = "namespace_limiter"
    SELECT = "select"
    """No limit holds it; others ranked higher."""


@record(frozen=True, slots=True)
class JobHold:
    """Why a job waits: `count` of `limit` are in use at `scope` (a node, a workload …), since `since_s`."""

    filter: HoldFilter
    scope: str
    count: int
    limit: int
    since_s: float

    def continued(self, earlier: JobHold | None) -> JobHold:
        """Returns the hold with the start of an earlier one by the same filter and scope."""
        if earlier is None or earlier.filter is not self.filter or earlier.scope != self.scope:
            return self
        return JobHold(self.filter, self.scope, self.count, self.limit, earlier.since_s)

    @property
    def message(self) -> str:
        """A sentence for the condition of the job."""
        where = f" of {self.scope}" if self.scope else ""
        return f"held by {self.filter}{where}: {self.count} of {self.limit}"
