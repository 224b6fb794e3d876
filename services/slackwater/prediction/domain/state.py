"""The state of prediction for one partition. It changes only by taking the next window of the stream.

A window is added to its slot of `histogram_update_seconds`. All waiting slots of a pool are folded, each in one call
per model, when the first window of a later slot arrives in the pool, or a later window of a node that waits (its clock
may be behind that of others). Folding therefore depends on the stream and not on its batches, and the state depends
only on the windows and their order: replay is exact. A window that begins before its node's last one ended is a
duplicate or late, and is ignored.

The pool of a node comes from its description, not from the stream. A node whose pool changes starts empty in the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.peaks.port import Floats, KeptModel
from slackwater.prediction.domain.pod_table import QOS, RESOURCES, TIERS, Gone, PodMember, PodModels
from slackwater.prediction.domain.policy import ModelChoice, PoolPolicies
from slackwater.prediction.domain.rollouts import RolloutSpan, revision_of
from slackwater.prediction.domain.row_ids import joined

DEFAULT_POOL = "default"
"""Pool of a node that was not described yet."""
NODE, SYSTEM = "node", "system"
MakeModel = Callable[[ModelChoice, str], KeptModel]
"""Builds the chosen model, for `cpu` or `memory`. Raises InvalidInput."""
_TIER = {tier: number for number, tier in enumerate(TIERS)}
_QOS = {qos: number for number, qos in enumerate(QOS)}


@record(frozen=True, slots=True)
class Keeping:
    """Retention of series without samples, in seconds of the stream. Workloads are kept longest, because they
    return.
    """

    pod_seconds: float = 1800.0
    node_seconds: float = 7 * 86_400.0
    workload_seconds: float = 15 * 86_400.0
    every_seconds: float = 60.0

    @property
    def pods(self) -> Gone:
        node = max(self.node_seconds, self.pod_seconds)
        return Gone(self.pod_seconds, node, max(self.workload_seconds, self.pod_seconds))

    @property
    def whole(self) -> Gone:
        return Gone(self.node_seconds, self.node_seconds, max(self.workload_seconds, self.node_seconds))


class LastWindow(NamedTuple):
    """A window of a node, and the node's number of windows by then. Times in seconds since 1970."""

    end: int
    number: int
    seconds: int
    windows: int
    event_id: str
    traceparent: str | None = None


@record(frozen=True, slots=True)
class NodeWindow:
    """One window: the pods on the node, and the amounts of each (CPU in milli-cores, memory in bytes).

    `node` and `system` are pairs of amounts, None if not measured; `usage` (pods, 2) has NaN where not measured.
    """

    name: str
    start: int
    end: int
    number: int
    pods: Sequence[Pod]
    usage: Floats
    node: tuple[float, float] | None = None
    system: tuple[float, float] | None = None
    event_id: str = ""
    traceparent: str | None = None


@dataclass(slots=True)
class Node:
    """One node: its last window that was taken, and its last that was folded."""

    number: int
    name: str
    pool: str
    taken: LastWindow
    folded: LastWindow | None = None


@dataclass(slots=True)
class PoolModels:
    """The nodes of one pool: their pods by node and tier, and each system and whole node, with separate models."""

    pods: PodModels
    whole: PodModels
    slot_seconds: float
    newest_slot: int | None = None
    waiting: dict[str, Node] = field(default_factory=dict)
    """Nodes with windows that are not folded yet."""
    folds: int = 0
    """Number of folds; not part of the state."""

    def slot_of(self, end: int) -> int:
        """Returns the slot of a window that ends at `end`; a window that ends with a slot belongs to it."""
        return math.ceil(end / self.slot_seconds) - 1

    def waits_before(self, node: Node | None, slot: int) -> bool:
        """Returns whether the node has waiting windows of an earlier slot."""
        return node is not None and node.name in self.waiting and self.slot_of(node.taken.end) < slot

    def crowds(self) -> Iterator[tuple[str, PodModels]]:
        yield "pods", self.pods
        yield "whole", self.whole


class PartitionState:
    """The pools and nodes of a partition. `policies` select the models and the length of a slot."""

    def __init__(self, policies: PoolPolicies, make: MakeModel, keeping: Keeping | None = None) -> None:
        self.policies = policies
        self.keeping = keeping or Keeping()
        self._make = make
        self.pools: dict[str, PoolModels] = {}
        self.nodes: dict[str, Node] = {}
        self.by_number: list[Node | None] = []
        self.free: list[int] = []
        self.latest_seconds = 0
        self.collected_seconds = 0

    @property
    def series(self) -> int:
        """Returns the number of members; each has a model of each resource."""
        return sum(len(crowd.series) for pool in self.pools.values() for _, crowd in pool.crowds())

    @property
    def problems(self) -> dict[str, str]:
        """Returns what models cannot do, by `pool/pods or whole/resource: name`."""
        return {
            f"{name}/{kind}/{resource}: {model.name}": problem
            for name, pool in sorted(self.pools.items())
            for kind, crowd in pool.crowds()
            for resource, model in crowd.models.items()
            if (problem := getattr(model, "problem", ""))  # ReportsProblems; isinstance costs ten times as much
        }

    def apply_window(self, sight: NodeWindow, pool_name: str = DEFAULT_POOL) -> bool:
        """Adds a window. Returns False if the node already has a window of that time."""
        node = self.nodes.get(sight.name)
        if node is not None and sight.start < node.taken.end:
            return False
        if node is not None and node.pool != pool_name:
            self._move(node, pool_name)
        pool = self.pool(pool_name)
        slot = pool.slot_of(sight.end)
        if pool.newest_slot is None or slot > pool.newest_slot or pool.waits_before(node, slot):
            self.fold(pool)
            pool.newest_slot = slot if pool.newest_slot is None else max(slot, pool.newest_slot)
            self._collect(sight.end)
            node = self.nodes.get(sight.name)  # `_collect` may have deleted it
        now = max(sight.start, self.latest_seconds)  # the node's clock, or the others' if it lags behind
        is_back = node is not None and now - node.taken.end >= self.keeping.pod_seconds / 2
        windows = 1 if node is None else node.taken.windows + 1
        window = LastWindow(
            sight.end, sight.number, sight.end - sight.start, windows, sight.event_id, sight.traceparent
        )
        is_new = node is None
        node = node or self._enter(sight.name, pool_name, window)
        span = RolloutSpan(sight.start, sight.end)
        try:
            pool.pods.apply_window(node.number, slot, span, *_pods_of(sight), is_back=is_back)
            pool.whole.apply_window(node.number, slot, span, *_whole_of(sight, pool.whole))
        except Exception:
            if is_new:  # at redelivery the window must not count as a duplicate
                self._withdraw(node, pool)
            raise
        node.taken = window
        pool.waiting[node.name] = node
        self.latest_seconds = max(self.latest_seconds, sight.end)
        return True

    def pool(self, name: str) -> PoolModels:
        pool = self.pools.get(name)
        if pool is None:
            pods, whole = (
                PodModels({resource: self.new_model(name, resource) for resource in RESOURCES}) for _ in range(2)
            )
            pool = self.pools[name] = PoolModels(pods, whole, self.policies.of(name).cadence.histogram_update_seconds)
        return pool

    def new_model(self, pool: str, resource: str) -> KeptModel:
        """Builds the model that the policy of the pool selects."""
        return self._make(self.policies.of(pool).model_of(resource), resource)

    def fold(self, pool: PoolModels) -> None:
        """Folds the waiting windows of a pool."""
        if not pool.waiting:
            return
        pool.pods.fold(pool.slot_seconds)
        pool.whole.fold(pool.slot_seconds)
        for node in pool.waiting.values():
            node.folded = node.taken
        pool.waiting.clear()
        pool.folds += 1

    def follow(self, policies: PoolPolicies) -> list[str]:
        """Applies these policies from now on. Returns each `pool/resource` whose new model starts without its
        history.
        """
        before, self.policies = self.policies, policies
        anew = []
        self.use_slots()
        for name, pool in sorted(self.pools.items()):
            old, new = before.of(name), policies.of(name)
            for resource in RESOURCES:
                chosen = new.model_of(resource)
                if chosen == old.model_of(resource):
                    continue
                exchanged = [self._exchange(crowd, resource, chosen) for _, crowd in pool.crowds()]
                anew += [] if all(exchanged) else [f"{name}/{resource}"]
        return anew

    def use_slots(self) -> None:
        """Sets the slot lengths of the policies; folds waiting windows of pools whose length changes."""
        for name, pool in sorted(self.pools.items()):
            seconds = self.policies.of(name).cadence.histogram_update_seconds
            if seconds != pool.slot_seconds:
                self.fold(pool)
                pool.slot_seconds, pool.newest_slot = seconds, None

    def _exchange(self, crowd: PodModels, resource: str, chosen: ModelChoice) -> bool:
        """Replaces a model and restores its history if that fits. Returns whether it did."""
        old, new = crowd.models[resource], self._make(chosen, resource)
        is_same_model = (old.name, old.version) == (new.name, new.version)
        if is_same_model:
            try:
                new.restore(old.state())
            except InvalidInput:
                is_same_model, new = False, self._make(chosen, resource)
        crowd.models[resource] = new
        return is_same_model

    def _enter(self, name: str, pool: str, window: LastWindow) -> Node:
        if self.free:
            number = self.free.pop()
        else:
            number = len(self.by_number)
            self.by_number.append(None)
        node = self.nodes[name] = self.by_number[number] = Node(number, name, pool, window)
        return node

    def _withdraw(self, node: Node, pool: PoolModels) -> None:
        """Removes a node that was just entered."""
        for _, crowd in pool.crowds():
            crowd.let_go(node.number)
        del self.nodes[node.name]
        self.by_number[node.number] = None
        self.free.append(node.number)

    def _move(self, node: Node, pool_name: str) -> None:
        """Moves a node to another pool. The history of its pods and of itself stays with the old pool's models."""
        old = self.pool(node.pool)
        self.fold(old)
        for _, crowd in old.crowds():
            crowd.let_go(node.number)
        node.pool = pool_name
        node.folded = None

    def _collect(self, now: int) -> None:
        """Deletes series without samples, by stream time; waiting windows are folded first."""
        if now < self.collected_seconds + self.keeping.every_seconds:
            return
        self.collected_seconds = now
        for _, pool in sorted(self.pools.items()):
            self.fold(pool)
            pool.pods.collect(now, self.keeping.pods)
            pool.whole.collect(now, self.keeping.whole)
        for node in self.by_number:
            if node is not None and node.taken.end < now - max(self.keeping.node_seconds, self.keeping.pod_seconds):
                del self.nodes[node.name]
                self.by_number[node.number] = None
                self.free.append(node.number)


def _pods_of(sight: NodeWindow) -> tuple[list[PodMember], Floats]:
    members: dict[str, PodMember] = {}
    places = []
    for place, pod in enumerate(sight.pods):
        if pod.uid in members:
            continue
        tier = pod.tier.value
        members[pod.uid] = PodMember(
            joined(sight.name, pod.uid),
            joined(sight.name, tier),
            pod.workload,
            _TIER.get(tier, len(TIERS) - 1),
            _QOS.get(pod.qos.value, len(QOS) - 1),
            max(pod.request.cpu_milli, 0),
            max(pod.request.memory_bytes, 0),
            revision_of(pod.labels) if pod.labels else 0,
        )
        places.append(place)
    return list(members.values()), sight.usage[places]


def _whole_of(sight: NodeWindow, whole: PodModels) -> tuple[list[PodMember], Floats]:
    """Returns the node and its system, each a group of one. Without a measurement in this window the amount is unknown,
    which is not zero; what was never measured is left out.
    """
    unknown = (np.nan, np.nan)
    pairs = ((NODE, sight.node), (SYSTEM, sight.system))
    named = [(joined(sight.name, kind), kind, pair) for kind, pair in pairs]
    measured = [entry for entry in named if entry[2] is not None or whole.series.find(entry[0]) is not None]
    usage = np.array([pair or unknown for _, _, pair in measured], dtype=np.float64).reshape(-1, 2)
    return [PodMember(name, name, name, int(kind == SYSTEM)) for name, kind, _ in measured], usage
