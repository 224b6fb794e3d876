"""The cluster at a time, as arrays: one row per node and one per pod.

Rows are stable: a node or pod keeps its row while it is there. A row that was freed is used again; `incarnation` tells,
so that state kept by row is not carried from one pod to another. Amounts are (rows, 2): milli-cores and bytes. What is
unknown is 0 with `known` false, or NaN where a column holds floats; in rows that do not exist everything is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from slackwater.model.nodes import NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

TIERS = tuple(Tier)
QOS_CLASSES = tuple(QoSClass)
CPU, MEMORY = 0, 1
"""Columns of an amount."""
NONE = -1
"""Of a code: not known. Of a limit whose row is known: no limit."""


class Source(IntEnum):
    """What is known of a node comes from these; each has a time of its own. Columns of `at` and `age_seconds`."""

    DESCRIBED = 0
    REPORTED = 1
    WINDOWED = 2
    PREDICTED = 3
    OFFERED = 4
    DECLARED = 5
    OBSERVED = 6
    LIVENESS = 7
    SCHEDULING = 8
    ROSTERED = 9


class LivenessCode(IntEnum):
    """Liveness by the server's clock."""

    UNKNOWN = NONE
    FRESH = 0
    STALE = 1
    LOST = 2


@record(frozen=True, slots=True)
class Amounts:
    """CPU and memory by row; 0 where not known."""

    value: Ints
    known: Flags

    def total(self, where: Flags) -> tuple[int, int]:
        """The sum of what is known of these rows."""
        cpu, memory = self.value[where].sum(axis=0)
        return int(cpu), int(memory)


@record(frozen=True, slots=True)
class ViewColumn:
    """One integer by row; 0 where not known."""

    value: Ints
    known: Flags


@record(frozen=True, slots=True)
class NodeColumns:
    """The nodes.

    `allocatable` is the capacity less what the operator keeps back. `usage` and `system_usage` are the averages of the
    last report or of the last window, whichever ended later; `window_p95` is the 95th percentile of the last window.
    `prod_pressure` (0..1) is the share of time in which prod waited for CPU in the last report. `tier_peaks` is
    (rows, 4, 2) in the order of TIERS.
    `cordoned`: takes no new pods now. `intent_pending`: a writer's last document is not answered by the agent yet.
    """

    names: Sequence[str]
    """Empty where the row is free."""
    facts: Sequence[NodeFacts | None]
    """Labels, annotations, topology and zones as described; None where the node was never described."""
    rows: Mapping[str, int]
    exists: Flags
    incarnation: Ints
    pool: Ints
    """Index into `pools`; NONE where not described."""
    pools: Sequence[str]
    at: Ints
    """(rows, Source): microseconds since 1970 by the clock of the sender, 0 = never."""
    age_seconds: Floats
    """(rows, Source): infinite = never; negative where the clock of the sender is ahead."""
    capacity: Amounts
    reserved: Amounts
    allocatable: Amounts
    usage: Amounts
    system_usage: Amounts
    prod_pressure: Floats
    window_p95: Amounts
    node_peak: Amounts
    system_peak: Amounts
    prod_peak: Amounts
    prod_reclaimable: Amounts
    tier_peaks: Amounts
    confidence: Floats
    cold_start_share: Floats
    batch: Amounts
    mid: Amounts
    offer_generation: ViewColumn
    offer_degraded: Flags
    liveness: NDArray[np.int8]
    cordoned: Flags
    intent_pending: Flags
    failed: Sequence[Sequence[Pod]]
    """Pods that have ended with a failure and are listed still, as reported. They use nothing and have no row."""

    def is_stale(self, source: Source, seconds: float) -> Flags:
        """The nodes whose last event of a source is missing, or further than `seconds` from now."""
        stale: Flags = self.exists & ~(np.abs(self.age_seconds[:, source]) <= seconds)
        return stale

    def system_load(self, row: int) -> tuple[int, int]:
        """CPU and memory that the system of a node is expected to take: its predicted peak. As long as prediction knows
        too little of it, the whole machine stands in for that, so that nothing is lent; what it uses now counts then,
        because else a node would take no pod for a day."""
        return self._system_amount(row, CPU), self._system_amount(row, MEMORY)

    def _system_amount(self, row: int, column: int) -> int:
        peak = int(self.system_peak.value[row, column])
        is_predicted = self.system_peak.known[row, column] and peak < self.allocatable.value[row, column]
        return peak if is_predicted else int(self.system_usage.value[row, column])


@record(frozen=True, slots=True)
class PodColumns:
    """The pods that run, by the last roster or report of their node.

    `usage` is the average of the last report or of the last window, whichever ended later, `cpu_limit` the limit in
    force at the last report (NONE: unlimited), `window_p95` the 95th percentile of the last window, `peak` the
    predicted one (`cold_start`: the request stands in for it).
    `wanted_cpu_limit` is the lowest that a writer's intent declares, `limit_failed` says that the agent answered an
    intent in force with an error for the pod. `evicting`: an eviction is declared, not completed, and not past its
    deadline.
    """

    uids: Sequence[str]
    """Also of a pod that another source names and that does not run; empty where the row is free."""
    described: Sequence[Pod | None]
    """Name, labels and times as reported; None in rows that do not exist."""
    exists: Flags
    incarnation: Ints
    node: Ints
    """Row of the node; NONE where the row is free."""
    tier: Ints
    """Index into TIERS."""
    qos: Ints
    """Index into QOS_CLASSES."""
    priority: Ints
    started_at: Ints
    """Microseconds since 1970."""
    workload: Ints
    """Index into `workloads`."""
    workloads: Sequence[str]
    namespace: Ints
    namespaces: Sequence[str]
    request: Amounts
    usage: Amounts
    cpu_limit: ViewColumn
    window_p95: Amounts
    peak: Amounts
    cold_start: Flags
    wanted_cpu_limit: ViewColumn
    limit_failed: Flags
    evicting: Flags


@record(frozen=True, slots=True)
class ClusterView:
    """The cluster at `now`. Arrays are read-only. `revision` rises with every event that the fold took."""

    now: datetime
    revision: int
    nodes: NodeColumns
    pods: PodColumns

    def pods_by_node(self) -> tuple[Ints, Ints]:
        """Rows of the pods that run, sorted by node, and for each row of `nodes` where its pods begin: those of node n
        are `rows[begin[n]:begin[n + 1]]`."""
        rows = np.flatnonzero(self.pods.exists)
        nodes = self.pods.node[rows]
        order = np.argsort(nodes, kind="stable")
        begin = np.searchsorted(nodes[order], np.arange(len(self.nodes.exists) + 1))
        return rows[order], begin

    def sum_by_node(self, amounts: Amounts, where: Flags) -> tuple[Ints, Ints]:
        """Of the pods in `where`: the sum of what is known of them per node, and how many are not known there, per
        resource. A sum over unknown pods is a lower bound."""
        rows = np.flatnonzero(where & self.pods.exists)
        nodes = self.pods.node[rows]
        sums, unknown = (np.zeros((len(self.nodes.exists), 2), np.int64) for _ in range(2))
        np.add.at(sums, nodes, amounts.value[rows])
        np.add.at(unknown, nodes, (~amounts.known[rows]).astype(np.int64))
        return sums, unknown

    def pod_rows(self) -> Mapping[tuple[int, str], int]:
        """Rows of the pods that run, by row of the node and uid. Built anew: for one lookup use `pods_by_node`."""
        uids, nodes = self.pods.uids, self.pods.node
        return {(int(nodes[row]), uids[row]): row for row in np.flatnonzero(self.pods.exists).tolist()}
