"""The state of the cluster as read: one mirror per kind, and sums that are kept up to date by changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from slackwater.apiserver.mirror import Mirror, ObjectChange
from slackwater.apiserver.port import WatchChange, WatchEvent
from slackwater.apiserver.records import (
    JOBS,
    KINDS,
    NODES,
    PODS,
    REPLICA_SETS,
    ApiRecord,
    ClusterNode,
    PodRecord,
    WatchedKind,
    is_newer,
)
from slackwater.apiserver.workloads import Workload, workload_of

T = TypeVar("T", bound=ApiRecord)
Amounts = Mapping[str, int]


class Inventory:
    """Written by one follower per kind, read by use cases. `on_nodes` is called when nodes and pods were listed, and
    after every change of nodes; `on_pods` after every change of pods."""

    def __init__(self, on_nodes: Callable[[], None] = lambda: None, on_pods: Callable[[], None] = lambda: None) -> None:
        self._mirrors: dict[str, Mirror[Any]] = {kind.plural: Mirror() for kind in KINDS}
        self._borrowed: dict[str, dict[str, int]] = {}
        self._on_nodes = on_nodes
        self._on_pods = on_pods

    @property
    def synced(self) -> bool:
        """Whether every kind was listed."""
        return all(mirror.synced for mirror in self._mirrors.values())

    @property
    def nodes_synced(self) -> bool:
        """Whether nodes and pods were listed: then sums over the pods of a node are whole."""
        return all(self._mirrors[kind.plural].synced for kind in (NODES, PODS))

    def is_synced(self, kind: WatchedKind[Any]) -> bool:
        """Whether a kind was listed."""
        return self._mirrors[kind.plural].synced

    @property
    def nodes(self) -> Mapping[str, ClusterNode]:
        return self._mirrors[NODES.plural].items

    @property
    def pods(self) -> Mapping[str, PodRecord]:
        return self._mirrors[PODS.plural].items

    def items(self, kind: WatchedKind[T]) -> Mapping[str, T]:
        """The objects of any kind, by key."""
        return self._mirrors[kind.plural].items

    def counts(self) -> Mapping[str, int]:
        """Objects by plural."""
        return {plural: len(mirror.items) for plural, mirror in self._mirrors.items()}

    def unsynced(self) -> Sequence[str]:
        """Plurals that were not listed yet."""
        return [plural for plural, mirror in self._mirrors.items() if not mirror.synced]

    def borrowed(self, node: str) -> Amounts:
        """The sums of what the pods on a node request of lent resources, by resource name."""
        return self._borrowed.get(node, {})

    def workload(self, pod: PodRecord) -> Workload:
        """The workload of a pod, by the owners known now."""
        return workload_of(pod, {kind.plural: self.items(kind) for kind in (REPLICA_SETS, JOBS)})

    def replace(self, kind: WatchedKind[T], items: Iterable[T]) -> Sequence[ObjectChange[T]]:
        """Set a kind to the state of a list."""
        was_synced = self.nodes_synced
        changes = self._followed(kind, self._mirrors[kind.plural].replace(items))
        if not was_synced and self.nodes_synced:
            self._on_nodes()
        return changes

    def apply(self, kind: WatchedKind[T], event: WatchEvent[T]) -> Sequence[ObjectChange[T]]:
        """Apply an event of a watch."""
        return self._followed(kind, self._mirrors[kind.plural].apply(event))

    def note_written(self, node: ClusterNode) -> None:
        """Apply the answer to a write, unless the watch has shown the node's deletion or a newer state meanwhile."""
        known = self.nodes.get(node.key)
        if known is not None and known.uid == node.uid and not is_newer(known.version, node.version):
            self.apply(NODES, WatchEvent(WatchChange.UPSERTED, node.version, node))

    def _followed(self, kind: WatchedKind[T], changes: Sequence[ObjectChange[Any]]) -> Sequence[ObjectChange[T]]:
        if kind.plural == PODS.plural:
            for change in changes:
                self._count(change.before, -1)
                self._count(change.after, 1)
            self._on_pods()
        if changes and kind.plural == NODES.plural:
            self._on_nodes()
        return changes

    def _count(self, pod: PodRecord | None, sign: int) -> None:
        if pod is None or not pod.occupies or not pod.borrowed:
            return
        sums = self._borrowed.setdefault(pod.node, {})
        for name, amount in pod.borrowed:
            sums[name] = sums.get(name, 0) + sign * amount
            if not sums[name]:
                del sums[name]
        if not sums:
            del self._borrowed[pod.node]
