"""The pod rows of the fold. Each source owns columns of its own, and a row is freed when no source names the pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from slackwater.cluster.rows import FREE, UNKNOWN, Block, Interned, Rows
from slackwater.cluster.versions import micros
from slackwater.cluster.view import NONE, QOS_CLASSES, TIERS, Amounts, Flags, Ints, PodColumns, ViewColumn
from slackwater.model.pods import Pod


class Names(IntEnum):
    """Which source names a pod: one bit each. REPORT, of rosters and reports, says that it runs."""

    REPORT = 0
    WINDOW = 1
    PEAK = 2
    INTENT = 3


WIDTHS = {Names.REPORT: 3, Names.WINDOW: 4, Names.PEAK: 3, Names.INTENT: 3}
"""REPORT: CPU, memory, CPU limit. WINDOW: average of CPU and memory, their 95th percentiles. PEAK: CPU, memory, cold
start. INTENT: wanted CPU limit, deadline of an eviction in microseconds, whether a limit failed."""

_TIER, _QOS, _PRIORITY, _CPU, _MEMORY, _STARTED, _WORKLOAD, _NAMESPACE = range(8)
_TIER_CODES = {tier: code for code, tier in enumerate(TIERS)}
_QOS_CODES = {qos: code for code, qos in enumerate(QOS_CLASSES)}

Rowed = NDArray[np.intp]


@dataclass(slots=True)
class _NodePods:
    rows: dict[str, int] = field(default_factory=dict)
    named: dict[Names, tuple[list[int], Rowed]] = field(default_factory=dict)


class _Facts:
    """What is said of each pod that runs."""

    def __init__(self) -> None:
        self.block = Block(8, UNKNOWN)
        self.described: list[Pod | None] = []

    def reserve(self, rows: int) -> None:
        self.block.reserve(rows)
        self.described.extend([None] * (rows - len(self.described)))


class PodTable:
    """Rows of pods by node and uid."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._uids: list[str] = []
        self._node = Block(1, FREE)
        self._named_by = Block(1, 0, np.uint8)
        self._blocks = {name: Block(width, UNKNOWN) for name, width in WIDTHS.items()}
        self._facts = _Facts()
        self._workloads, self._namespaces = Interned(), Interned()
        self._of: dict[int, _NodePods] = {}

    def replace(self, name: Names, node: int, uids: Sequence[str]) -> Rowed:
        """The rows of the pods that a source names on a node from now on; of the others it says nothing any more."""
        pods = self._of.get(node)
        if pods is None:
            pods = self._of[node] = _NodePods()
        rows = [pods.rows.get(uid, FREE) for uid in uids]
        if FREE in rows:
            rows = [self._row(pods, node, uid) for uid in uids]
        before = pods.named.get(name)
        if before is not None and before[0] == rows:
            return before[1]
        array = np.array(rows, np.intp)
        pods.named[name] = rows, array
        self._named_by.array[array, 0] |= 1 << name
        self._blocks[name].reserve(self._rows.count)
        if before is not None:
            for row in set(before[0]).difference(rows):
                self._drop(pods, name, row)
        return array

    def write(self, name: Names, rows: Rowed, values: Ints) -> None:
        """What a source says of the pods that it names, in the columns of WIDTHS."""
        if len(rows):
            self._blocks[name].array[rows] = values

    def describe(self, rows: Rowed, described: Sequence[Pod]) -> None:
        """Facts of the pods that run."""
        self._facts.reserve(self._rows.count)
        before = self._facts.described
        for row, pod in zip(rows.tolist(), described, strict=True):
            last = before[row]
            if last is not pod and last != pod:
                self._set_facts(row, pod)

    def remove_node(self, node: int) -> None:
        """No source names a pod of the node any more."""
        pods = self._of.pop(node, None)
        if pods is None:
            return
        for name, (rows, _) in pods.named.items():
            for row in set(rows):
                self._drop(pods, name, row)

    def columns(self, by_window: Flags, now_micros: int) -> PodColumns:
        """The pods at a time; `by_window`: the nodes whose last window is newer than their last report."""
        count = self._rows.count
        node = self._node.copy(count)[:, 0]
        exists = (self._named_by.copy(count)[:, 0] & (1 << Names.REPORT)) != 0
        windowed = by_window[node] & (node != FREE) if len(by_window) else np.zeros(count, bool)
        self._facts.reserve(count)
        facts = self._facts.block.copy(count)
        report = self._blocks[Names.REPORT].copy(count)
        window = self._blocks[Names.WINDOW].copy(count)
        peak = self._blocks[Names.PEAK].copy(count)
        intent = self._blocks[Names.INTENT].copy(count)
        return PodColumns(
            uids=tuple(self._uids),
            described=tuple(self._facts.described),
            exists=exists,
            incarnation=self._rows.incarnations(),
            node=node,
            tier=_code(facts[:, _TIER]),
            qos=_code(facts[:, _QOS]),
            priority=column(facts[:, _PRIORITY]).value,
            started_at=column(facts[:, _STARTED]).value,
            workload=_code(facts[:, _WORKLOAD]),
            workloads=self._workloads.texts(),
            namespace=_code(facts[:, _NAMESPACE]),
            namespaces=self._namespaces.texts(),
            request=amounts(facts[:, _CPU : _MEMORY + 1]),
            usage=amounts(np.where(windowed[:, None], window[:, :2], report[:, :2])),
            cpu_limit=column(report[:, 2]),
            window_p95=amounts(window[:, 2:]),
            peak=amounts(peak[:, :2]),
            cold_start=peak[:, 2] == 1,
            wanted_cpu_limit=column(intent[:, 0]),
            evicting=intent[:, 1] > now_micros,
            limit_failed=intent[:, 2] == 1,
        )

    def _row(self, pods: _NodePods, node: int, uid: str) -> int:
        row = pods.rows.get(uid)
        if row is None:
            row = pods.rows[uid] = self._rows.allocate()
            if row == len(self._uids):
                self._uids.append(uid)
            else:
                self._uids[row] = uid
            self._node.reserve(self._rows.count)
            self._named_by.reserve(self._rows.count)
            self._node.array[row] = node
        return row

    def _set_facts(self, row: int, pod: Pod) -> None:
        self._release_facts(row)
        facts = self._facts
        facts.described[row] = pod
        facts.block.array[row] = (
            _TIER_CODES[pod.tier],
            _QOS_CODES[pod.qos],
            pod.priority,
            pod.request.cpu_milli,
            pod.request.memory_bytes,
            micros(pod.started_at),
            self._workloads.acquire(pod.workload),
            self._namespaces.acquire(pod.namespace),
        )

    def _release_facts(self, row: int) -> None:
        facts = self._facts
        if facts.described[row] is not None:
            self._workloads.release(int(facts.block.array[row, _WORKLOAD]))
            self._namespaces.release(int(facts.block.array[row, _NAMESPACE]))
            facts.described[row] = None
            facts.block.clear(row)

    def _drop(self, pods: _NodePods, name: Names, row: int) -> None:
        self._blocks[name].clear(row)
        if name == Names.REPORT:
            self._release_facts(row)
        left = int(self._named_by.array[row, 0]) & ~(1 << name)
        self._named_by.array[row] = left
        if left == 0:
            del pods.rows[self._uids[row]]
            self._uids[row] = ""
            self._node.array[row] = FREE
            self._rows.free(row)


def amounts(block: Ints) -> Amounts:
    """Two columns of a block."""
    known = block != UNKNOWN
    return Amounts(np.where(known, block, 0), known)


def column(values: Ints) -> ViewColumn:
    """One column of a block."""
    known = values != UNKNOWN
    return ViewColumn(np.where(known, values, 0), known)


def _code(values: Ints) -> Ints:
    return np.where(values == UNKNOWN, NONE, values)
