"""The cluster as events of nodes, agents, offers and intents describe it, and which of them start cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slackwater.cluster.fold import ClusterFold
from slackwater.cluster.view import ClusterView
from slackwater.descheduler.domain.cluster_placement import placement_of
from slackwater.descheduler.domain.move_jobs import OpenMoves
from slackwater.descheduler.domain.pending_triggers import PendingTriggers
from slackwater.descheduling.placement import ClusterPlacement
from slackwater.descheduling.profile import CycleTrigger, DeclaredProfile, ProfileScope
from slackwater.events.envelope import Event, Payload
from slackwater.events.migration_changed import MigrationChanged
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.reclaim_requested import ReclaimRequested
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import URGENT_TRIGGER
from slackwater.model.time import Clock
from slackwater.podmigration.jobs import MigrationMode

MOST_WORKLOADS: Final = 300_000
"""Pods whose workload is remembered after they have left the reports: an eviction is answered later."""
WATCHED: Final[tuple[type[Payload], ...]] = (
    NodeDescribed,
    NodeLivenessChanged,
    NodeSchedulingChanged,
    ResourcesOffered,
    PeakPredicted,
    UsageReported,
    ReclaimRequested,
    NodeDeleted,
)


class ClusterState:
    """Every replica folds the whole cluster: a profile spans nodes of all partitions."""

    def __init__(self, clock: Clock, collapse_ratio: float, shares: Mapping[str, float]) -> None:
        """`shares`: what the predicted load of a node may take with a reservation, as the service migration has it."""
        self._clock = clock
        self._shares = shares
        self._collapse_ratio = collapse_ratio
        self._fold = ClusterFold()
        self._unread: set[type[Payload]] = {*WATCHED, MigrationChanged}
        self._newest: dict[str, dict[type[Payload], Event[Any]]] = {}
        self._workloads: dict[tuple[str, str], str] = {}
        self.triggers = PendingTriggers()

    @property
    def is_known(self) -> bool:
        """Whether the stored events of every type have been read once. Before, nodes would look empty, and moves that
        were refused pending."""
        return not self._unread

    def caught_up(self, payload: type[Payload]) -> None:
        """Note that all stored events of a type have been received."""
        self._unread.discard(payload)

    def view(self) -> ClusterView:
        """Returns the cluster now."""
        return self._fold.view(self._clock.now())

    def placement(self, profile: DeclaredProfile | None, moves: OpenMoves) -> ClusterPlacement:
        """Returns the nodes of a profile now (None: all nodes). Where its moves reserve room, a node takes no more than
        a reservation would find there: else the same move would be proposed again and again, and never begin."""
        scope = ProfileScope() if profile is None else profile.scope
        reserves = profile is None or profile.mode is MigrationMode.RESERVATION_FIRST
        return placement_of(self.view(), scope, moves, self._shares if reserves else {})

    def workload(self, node: str, pod_uid: str) -> str:
        """Returns the workload of a pod that runs or ran on a node; empty where it was never reported there."""
        return self._workloads.get((node, pod_uid), "")

    def is_read(self, node: str, scope: ProfileScope) -> bool:
        """Whether a node is one of a profile's."""
        described = self._last(node, NodeDescribed)
        return described is not None and scope.reads(described.facts.pool, described.facts.labels)

    def pool(self, node: str) -> str | None:
        """Returns the pool of a node; None where it is not described."""
        described = self._last(node, NodeDescribed)
        return None if described is None else described.facts.pool

    async def receive(self, event: Event[Any]) -> None:
        """Fold an event. Types are read one after the other, so the deletion of a node that is back comes after its new
        description; what was stored before this process read it starts no cycle."""
        data = event.data
        if isinstance(data, NodeDeleted):
            self._delete(data)
            return
        if isinstance(data, UsageReported):
            self._remember(data)
        if not self._unread and (trigger := self._trigger(data)) is not None:
            node = "" if isinstance(data, ReclaimRequested) else data.node
            self.triggers.add(trigger, node, self._clock.now().timestamp())
        if self._fold.apply(event) and not isinstance(data, UsageReported | PeakPredicted):
            name = data.facts.name if isinstance(data, NodeDescribed) else data.node
            self._newest.setdefault(name, {})[type(data)] = event

    def _delete(self, deleted: NodeDeleted) -> None:
        self._fold.remove(deleted.node, deleted.deleted_at)
        before = self._newest.pop(deleted.node, {})
        if after := {kind: newest for kind, newest in before.items() if self._fold.apply(newest)}:
            self._newest[deleted.node] = after

    def _remember(self, report: UsageReported) -> None:
        for use in report.pods:
            if (report.node, use.pod.uid) not in self._workloads:
                self._workloads[report.node, use.pod.uid] = use.pod.workload
        while len(self._workloads) > MOST_WORKLOADS:
            del self._workloads[next(iter(self._workloads))]

    def _trigger(self, data: Payload) -> CycleTrigger | None:
        match data:
            case UsageReported():
                return CycleTrigger.HOTSPOT if data.trigger == URGENT_TRIGGER else None
            case NodeLivenessChanged():
                return CycleTrigger.NODE_CONDITION
            case NodeSchedulingChanged():
                before = self._last(data.node, NodeSchedulingChanged)
                was_closed = before is not None and before.closed
                return CycleTrigger.CORDON if data.closed != was_closed else None
            case ResourcesOffered():
                return CycleTrigger.COLLAPSED_OFFER if self._is_collapsed(data) else None
            case ReclaimRequested(by_intent=False):  # of a quota; moves ask for leave by the same event
                return CycleTrigger.QUOTA_RECLAIM
        return None

    def _is_collapsed(self, offer: ResourcesOffered) -> bool:
        before = self._last(offer.node, ResourcesOffered)
        if before is None:
            return False
        if offer.degraded is not None and before.degraded is None:
            return True
        return _whole_milli(offer) < self._collapse_ratio * _whole_milli(before)

    def _last(self, node: str, payload: type[Payload]) -> Any:
        event = self._newest.get(node, {}).get(payload)
        return None if event is None else event.data


def _whole_milli(offer: ResourcesOffered) -> int:
    """With what reservations keep of it: an offer does not collapse because a move has reserved its room."""
    return offer.batch.cpu_milli + (0 if offer.reserved is None else offer.reserved.batch.cpu_milli)
