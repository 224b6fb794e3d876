"""What nodes have, run and answer, folded from watched events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from slackwater.cluster.live_fold import LiveFold
from slackwater.cluster.view import ClusterView
from slackwater.descheduling.placement import PlacedPod
from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.events.envelope import Event, Payload
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.intents.controls import MIGRATION
from slackwater.migration.domain.migration_round import RoundWorld
from slackwater.migration.domain.node_rooms import placed_pod, rooms_of
from slackwater.migration.domain.sightings import SeenCluster, SeenStart, seen_of
from slackwater.migration.domain.stored_jobs import answer_key
from slackwater.migration.usecases.budgets_read import BudgetsRead
from slackwater.migration.usecases.reserved_rooms import taken_off
from slackwater.model.time import Clock
from slackwater.model.workload_labels import offered_label
from slackwater.reservations.placement import NodeRoom
from slackwater.reservations.reservation import Reservation

WATCHED: Final[tuple[type[Payload], ...]] = (
    NodeDescribed,
    NodeLivenessChanged,
    NodeSchedulingChanged,
    ResourcesOffered,
    PeakPredicted,
    PodsRostered,
    UsageWindowed,
    IntentObserved,
    NodeDeleted,
    DisruptionBudgetChanged,
)


class ClusterSight:
    """Every replica follows the whole cluster, so that another one can decide at once."""

    def __init__(self, clock: Clock, shares: Mapping[str, float], answered: Callable[[], None] = lambda: None) -> None:
        """`answered` is called when the state of a start has changed."""
        self._clock = clock
        self._answered = answered
        self._shares = shares
        self._fold = LiveFold(WATCHED)
        self._observed: dict[str, tuple[int, float]] = {}
        self._starts: dict[str, Mapping[str, SeenStart]] = {}
        """By node: what its agent said last of the starts of our document."""
        self._budgets = BudgetsRead()
        self._taken_off: dict[str, Mapping[str, int]] = {}
        """By node, what reservations took off its last offers; nodes without such are left out."""

    @property
    def is_known(self) -> bool:
        """Whether what is stored has been read once."""
        return self._fold.is_known

    def caught_up(self, payload: type[Payload]) -> None:
        """Note that all stored events of a type have been received."""
        self._fold.unread.discard(payload)

    async def receive(self, event: Event[Any]) -> None:
        """Fold an event."""
        data = event.data
        if isinstance(data, IntentObserved):
            if data.writer == MIGRATION.name:
                self._note_observed(data)
            return
        if isinstance(data, DisruptionBudgetChanged):
            self._budgets.receive(data)
            return
        is_new = self._fold.receive(event)
        if isinstance(data, NodeDeleted):
            self._observed.pop(data.node, None)
            self._starts.pop(data.node, None)
            self._taken_off.pop(data.node, None)
        elif isinstance(data, ResourcesOffered) and is_new:
            self._taken_off.pop(data.node, None)
            if taken := taken_off(data):
                self._taken_off[data.node] = taken

    def _note_observed(self, observed: IntentObserved) -> None:
        if self._observed.get(observed.node, (0, 0.0))[0] != observed.generation:
            self._observed[observed.node] = (observed.generation, observed.observed_at.timestamp())  # when it was first
        before, now_s = self._starts.get(observed.node, {}), self._clock.now().timestamp()
        starts = {}
        for start in observed.starts:
            known = before.get(start.id)
            since_s = known.received_s if known is not None and known.state is start.state else now_s
            starts[start.id] = SeenStart(start.state, start.pod_uid, start.detail, since_s)
        self._starts[observed.node] = starts
        if starts != before:
            self._answered()

    def world(
        self, uids: Collection[str], names: Collection[tuple[str, str]], workloads: Collection[str]
    ) -> RoundWorld:
        """Returns what is seen now of these pods and workloads."""
        view = self._fold.fold.view(self._clock.now())
        starts = {answer_key(node, id_): start for node, said in self._starts.items() for id_, start in said.items()}
        seen = replace(
            seen_of(view, uids, names, workloads),
            observed=dict(self._observed),
            starts=starts,
            offers=_Offers(view),
            budgets=self._budgets.by_namespace,
        )
        pods = _PodsOnNodes(view, seen)

        def rooms(reservations: Sequence[Reservation], lower_yield: bool) -> Sequence[NodeRoom]:
            return rooms_of(
                view, seen.fresh, reservations, self._shares, lower_yield=lower_yield, taken_off=self._taken_off
            )

        return RoundWorld(seen, rooms, pods, view.nodes.rows.keys())


class _Offers:
    """The digests of the workload files of nodes, from their labels."""

    def __init__(self, view: ClusterView) -> None:
        self._nodes = view.nodes

    def __call__(self, node: str, workload: str) -> str:
        row = self._nodes.rows.get(node)
        facts = None if row is None else self._nodes.facts[row]
        return "" if facts is None else facts.labels.get(offered_label(workload), "")


class _PodsOnNodes:
    """The pods on a node; None where it does not answer."""

    def __init__(self, view: ClusterView, seen: SeenCluster) -> None:
        self._view = view
        self._seen = seen
        self._made: dict[str, Sequence[PlacedPod]] = {}

    def __call__(self, node: str) -> Sequence[PlacedPod] | None:
        if node not in self._seen.fresh:
            return None
        if node not in self._made:
            rows, begin = self._view.pods_by_node()
            row = self._view.nodes.rows[node]
            found = [placed_pod(self._view, pod, node) for pod in rows[begin[row] : begin[row + 1]].tolist()]
            self._made[node] = [pod for pod in found if pod is not None]
        return self._made[node]
