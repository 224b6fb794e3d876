"""What the pools have now and what runs there, folded from events of nodes, offers and agents' reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from slackwater.cluster.fold import ClusterFold
from slackwater.cluster.view import NodeColumns
from slackwater.events.envelope import Event, Payload
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_reserved import NodeReserved
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.fairshare.documents import QuotaPool
from slackwater.fairshare.tree import added
from slackwater.model.nodes import Liveness
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.model.time import Clock
from slackwater.quota.domain.pool_totals import NodeKept, TreeTotals, totals_of, tree_nodes
from slackwater.quota.domain.running_pods import ReportOrder, RunningPods, system_amounts

FRESH_SECONDS: Final = 1.0
"""For so long totals hold if no event comes: cordons lapse and reservations expire by time alone."""
_PREFIXES: Final = {Tier.PROD: "", Tier.MID: "mid-", Tier.BATCH: "batch-"}


@dataclass(frozen=True, slots=True)
class _Totals:
    """Totals by tree, and what they were made of."""

    by_tree: Mapping[str, TreeTotals]
    nodes: Mapping[str, Sequence[str]]
    columns: NodeColumns
    revision: tuple[int, int]
    pools: Sequence[QuotaPool]
    at_s: float


WATCHED: Final[tuple[type[Payload], ...]] = (
    NodeDescribed,
    NodeLivenessChanged,
    NodeSchedulingChanged,
    ResourcesOffered,
    NodeReserved,
    UsageReported,
    NodeDeleted,
)


class ClusterTotals:
    """Every replica folds the whole cluster: a tree spans nodes of all partitions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._fold = ClusterFold()
        self._other_changes = 0
        """Of what the fold does not hold: pods of the system, reservations."""
        self._made: _Totals | None = None
        self.pods = RunningPods(clock.now().timestamp())
        self._system: dict[str, dict[str, int]] = {}
        self._reserved: dict[str, NodeReserved] = {}
        self._offered_without: dict[str, dict[str, int]] = {}
        """By node, what its last offer is without because of reservations; nodes without such are left out."""
        self._newest: dict[str, dict[type[Payload], Event[Any]]] = {}
        """By node, the newest event of each type that is folded."""
        self._unread = set(WATCHED)

    @property
    def is_known(self) -> bool:
        """Whether the stored events of every type have been read once. Before, what is not known would count as an
        empty pool: nothing would fit, and what is used would be reclaimed."""
        return not self._unread

    def caught_up(self, payload: type[Payload]) -> None:
        """Note that all stored events of a type have been received."""
        self._unread.discard(payload)

    async def receive(self, event: Event[Any]) -> None:
        """Fold an event of a node, its offer or its agent. Types are read one after the other, so the deletion of a
        node that is back comes after its new description."""
        data = event.data
        if isinstance(data, UsageReported):
            self._report(data)
        elif isinstance(data, NodeReserved):
            self._reserve(data)
        elif isinstance(data, NodeDeleted):
            self._delete(data)
        elif self._fold.apply(event):
            name = data.facts.name if isinstance(data, NodeDescribed) else data.node
            self._newest.setdefault(name, {})[type(data)] = event
            if isinstance(data, ResourcesOffered):
                self._note_offer(data)
            if isinstance(data, NodeLivenessChanged) and data.liveness is Liveness.LOST:
                self._remove(data.node)

    def _delete(self, deleted: NodeDeleted) -> None:
        self._fold.remove(deleted.node, deleted.deleted_at)
        before = self._newest.pop(deleted.node, {})
        if after := {kind: newest for kind, newest in before.items() if self._fold.apply(newest)}:
            self._newest[deleted.node] = after
        else:
            self._remove(deleted.node)
            self._reserved.pop(deleted.node, None)
            self._offered_without.pop(deleted.node, None)

    def now(self, pools: Sequence[QuotaPool]) -> Mapping[str, TreeTotals]:
        """Returns what each tree may give out; cordons that lapsed count no longer."""
        return self._current(pools).by_tree

    def nodes(self, tree: str, pools: Sequence[QuotaPool]) -> Sequence[str]:
        """Returns the nodes of a tree."""
        return self._current(pools).nodes.get(tree, ())

    def pools_of(self, nodes: Collection[str]) -> Mapping[str, str]:
        """Returns the pools of those nodes that were described."""
        columns = self._fold.view(self._clock.now()).nodes if self._made is None else self._made.columns
        rows = {node: columns.rows[node] for node in nodes if node in columns.rows}
        return {node: columns.pools[columns.pool[row]] for node, row in rows.items() if columns.pool[row] >= 0}

    def _report(self, report: UsageReported) -> None:
        order = ReportOrder(report.boot_epoch, report.sequence)
        seen = min(report.sampled_at, self._clock.now())  # an agent's clock may be ahead
        self.pods.report(report.node, order, seen.timestamp(), [use.pod for use in report.pods])
        running = self.pods.nodes.get(report.node)
        amounts = system_amounts(running.pods.values()) if running is not None else {}
        if amounts != self._system.get(report.node, {}):
            self._system[report.node] = amounts
            self._other_changes += 1

    def _reserve(self, reserved: NodeReserved) -> None:
        """Of two events the one with the higher generation is the newer; generations begin anew, at a later time, with
        a publisher that is installed anew."""
        before = self._reserved.get(reserved.node)
        if before is None or reserved.generation >= before.generation or reserved.reserved_at > before.reserved_at:
            self._reserved[reserved.node] = reserved
            self._other_changes += 1

    def _note_offer(self, offered: ResourcesOffered) -> None:
        self._offered_without.pop(offered.node, None)
        if offered.reserved is not None:
            taken = ((Tier.BATCH, offered.reserved.batch), (Tier.MID, offered.reserved.mid))
            self._offered_without[offered.node] = added(*(_by_name(tier, amount) for tier, amount in taken))

    def _kept(self, now: datetime) -> Mapping[str, NodeKept]:
        """What holds now: a reservation whose publisher is silent ends with its own expiry."""
        found: dict[str, NodeKept] = {}
        for node in self._reserved.keys() | self._offered_without.keys():
            reserved = self._reserved.get(node)
            rooms = () if reserved is None else reserved.rooms
            held = [room for room in rooms if room.expires_at is None or now < room.expires_at]
            without = self._offered_without.get(node, {})
            if held or without:
                found[node] = NodeKept(added(*(_by_name(room.tier, room.amount) for room in held)), without)
        return found

    def _remove(self, node: str) -> None:
        self.pods.remove(node)
        if self._system.pop(node, None):
            self._other_changes += 1

    def _current(self, pools: Sequence[QuotaPool]) -> _Totals:
        now, made = self._clock.now(), self._made
        revision = self._fold.revision, self._other_changes
        fresh = made is not None and 0 <= now.timestamp() - made.at_s < FRESH_SECONDS
        if made is None or not fresh or made.revision != revision or made.pools != pools:
            view = self._fold.view(now)
            nodes = tree_nodes(view, pools)
            totals = totals_of(view, pools, self._system, self._kept(now))
            made = self._made = _Totals(totals, nodes, view.nodes, revision, list(pools), now.timestamp())
        return made


def _by_name(tier: Tier, amount: Resources) -> dict[str, int]:
    prefix = _PREFIXES.get(tier)
    return {} if prefix is None else {f"{prefix}cpu": amount.cpu_milli, f"{prefix}memory": amount.memory_bytes}
