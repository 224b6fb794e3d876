"""Members of groups in one pool, and the models of both resources that learn from them.

A group is the subject of one peak: the pods of one tier on one node, one system, or one whole node. Each member has row
ids of its own, of its group and of its workload; their data is stored in columns. The amounts of a window wait in their
time slot, the largest of each member, until the slot is folded in one call of each model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.peaks.port import ByClass, Floats, KeptModel, Members, Peaks, RolloutAware, Rows
from slackwater.peaks.tables import SeriesColumn, State, Table, named, part_of
from slackwater.prediction.domain.rollouts import Rollouts, RolloutSpan, Sighting
from slackwater.prediction.domain.row_ids import RowIds

RESOURCES = ("cpu", "memory")
"""Column order of amounts of both resources: milli-cores, bytes."""
TIERS = ("prod", "mid", "batch", "free", "")
QOS = ("LSE", "LSR", "LS", "BE", "SYSTEM", "")
_ASKED = ("request_cpu", "request_memory", "revision")
_NEVER = -(2**62)
_FIRST = 64
Flags = NDArray[np.bool_]


class PodMember(NamedTuple):
    """An observed member: its stable names and its requests."""

    series: str
    group: str
    workload: str
    tier: int = len(TIERS) - 1
    qos: int = len(QOS) - 1
    cpu_milli: int = 0
    memory_bytes: int = 0
    revision: int = 0
    """The revision of its workload as a number; 0 if unknown."""


@record(frozen=True, slots=True)
class Gone:
    """Seconds of stream time after which a series, group or workload without samples is deleted."""

    series_seconds: float
    group_seconds: float
    workload_seconds: float


class Slot:
    """Samples of one time slot: rows, and amounts (n, 2) of each, in order of arrival.

    The columns grow in place: allocating, joining and freeing ten thousand small arrays, one per window, takes a third
    of a round.
    """

    def __init__(self) -> None:
        self._rows: Rows = np.empty(_FIRST, dtype=np.intp)
        self._usage: Floats = np.empty((_FIRST, 2))
        self._count = 0

    def add(self, rows: Rows, usage: Floats) -> None:
        end = self._count + len(rows)
        if end > len(self._rows):
            more = max(end, 2 * len(self._rows)) - len(self._rows)
            self._rows = np.concatenate([self._rows, np.empty(more, dtype=np.intp)])
            self._usage = np.concatenate([self._usage, np.empty((more, 2))])
        self._rows[self._count : end] = rows
        self._usage[self._count : end] = usage
        self._count = end

    def rows_and_usage(self) -> tuple[Rows, Floats]:
        return self._rows[: self._count], self._usage[: self._count]


class PodModels:
    """Members, groups, workloads and models of a pool. Its state depends only on what was taken and folded, in
    order.
    """

    def __init__(self, models: Mapping[str, KeptModel]) -> None:
        self.models = dict(models)
        self.series, self.groups, self.workloads = RowIds(), RowIds(), RowIds()
        amounts = {
            f"{what}_{resource}": SeriesColumn(np.float64) for what in ("request", "most") for resource in RESOURCES
        }
        self.members = Table(
            {
                "group": SeriesColumn(np.int32),
                "workload": SeriesColumn(np.int32),
                "qos": SeriesColumn(np.int8),
                "present": SeriesColumn(np.bool_),
                "last": SeriesColumn(np.int64, empty=_NEVER),
                "revision": SeriesColumn(np.int64),
                **amounts,
            }
        )
        self.places = Table(
            {
                "node": SeriesColumn(np.int32),
                "tier": SeriesColumn(np.int8),
                "last": SeriesColumn(np.int64, empty=_NEVER),
            }
        )
        self.known = Table({"last": SeriesColumn(np.int64, empty=_NEVER)})
        self.rollouts = Rollouts()
        self.waiting: dict[int, Slot] = {}
        self._here: dict[int, Rows] = {}

    def apply_window(
        self,
        node: int,
        slot: int,
        span: RolloutSpan,
        members: Sequence[PodMember],
        usage: Floats,
        *,
        is_back: bool = False,
    ) -> None:
        """Adds a window: the members on the node now, and the amounts (n, 2) of each, NaN where unknown.

        `is_back`: the node had been silent, so its members may have run there for long.
        """
        self._leave(node)
        if not members:
            return
        rows, groups, workloads = self._numbers_of(members)
        table, end = self.members, span.end
        table.reach(rows)
        self.known.reach(workloads)
        asked = (
            np.array([member.cpu_milli for member in members], dtype=np.float64),
            np.array([member.memory_bytes for member in members], dtype=np.float64),
            np.array([member.revision for member in members], dtype=np.int64),
        )
        new = table["last"][rows] == _NEVER
        other = new.copy()
        for column, amounts in zip(_ASKED, asked, strict=True):
            other |= table[column][rows] != amounts
            table[column][rows] = amounts
        table["group"][rows], table["workload"][rows] = groups, workloads
        table["qos"][rows] = [member.qos for member in members]
        table["last"][rows] = end
        table["present"][rows] = True
        if other.any():
            counted = new & (not is_back)
            self._notice(span, Sighting(workloads[other], counted[other], *(amounts[other] for amounts in asked)))
        self.places.reach(groups)
        self.places["node"][groups] = node
        self.places["tier"][groups] = [member.tier for member in members]
        self.places["last"][groups] = end
        self.known["last"][workloads] = np.maximum(self.known["last"][workloads], end)
        self._here[node] = np.sort(rows)
        self.waiting.setdefault(slot, Slot()).add(rows, usage)

    def _notice(self, span: RolloutSpan, seen: Sighting) -> None:
        """Announces workloads that change to the models that accept it."""
        changing = self.rollouts.notice(span, seen, self.known["last"][seen.workload], self._running)
        if changing:
            for model in self.models.values():
                if isinstance(model, RolloutAware):
                    model.announce(span.end, np.array(changing, dtype=np.intp))

    def _running(self, workload: int) -> int:
        used = self.members.used
        mine = self.members["workload"][:used] == workload
        return int(np.count_nonzero(mine & self.members["present"][:used]))

    def _numbers_of(self, members: Sequence[PodMember]) -> tuple[Rows, Rows, Rows]:
        count = len(members)
        series = np.fromiter((self.series.allocate(member.series) for member in members), np.intp, count)
        groups = np.fromiter((self.groups.allocate(member.group) for member in members), np.intp, count)
        workloads = np.fromiter((self.workloads.allocate(member.workload) for member in members), np.intp, count)
        return series, groups, workloads

    def _leave(self, node: int) -> None:
        rows = self._here.pop(node, None)
        if rows is not None:
            self.members["present"][rows] = False

    def fold(self, slot_seconds: float) -> None:
        """Folds all waiting slots into the models, in order of time."""
        for slot in sorted(self.waiting):
            rows, usage = self._by_group(*largest_of_each(*self.waiting[slot].rows_and_usage()))
            for place, resource in enumerate(RESOURCES):
                most = self.members[f"most_{resource}"]
                most[rows] = np.fmax(most[rows], usage[:, place])
                members = self.members_of(rows, self.limits(rows, resource))
                self.models[resource].fold((slot + 1) * slot_seconds, members, usage[:, place])
        self.waiting.clear()

    def present(self) -> Rows:
        """Returns the members that are present now, ordered by group."""
        rows = np.flatnonzero(self.members["present"][: self.members.used])
        return rows[np.argsort(self.members["group"][rows], kind="stable")]

    def on(self, nodes: Sequence[int]) -> Rows:
        """Returns the members on these nodes now, node by node, in the order of their row ids."""
        rows = [self._here[node] for node in nodes if node in self._here]
        return np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)

    def limits(self, rows: Rows, resource: str) -> Floats:
        """Returns the maximum usage of each member: its request, or its observed usage if that is larger."""
        table = self.members
        return np.asarray(np.maximum(table[f"request_{resource}"][rows], table[f"most_{resource}"][rows]))

    def members_of(self, rows: Rows, limit: Floats) -> Members:
        """Returns the members in the form that models take; rows are ordered by group."""
        group = self.members["group"][rows].astype(np.intp)
        workload = self.members["workload"][rows].astype(np.intp)
        return Members(group, rows, workload, limit, np.zeros(len(self.groups.names)), self._kinds(rows))

    def alone(self, rows: Rows, limit: Floats) -> Members:
        """Returns the members with each one as a group of its own."""
        workload = self.members["workload"][rows].astype(np.intp)
        return Members(np.arange(len(rows)), rows, workload, limit, np.zeros(len(rows)), self._kinds(rows))

    def _kinds(self, rows: Rows) -> Rows | None:
        """Returns tier and QoS class of each member as one number, if a model uses it."""
        if not any(isinstance(model, ByClass) and model.by_class for model in self.models.values()):
            return None
        tier = self.places["tier"][self.members["group"][rows]].astype(np.intp)
        return kind_of(tier, self.members["qos"][rows])

    def peaks(self, resource: str, at_seconds: float, members: Members) -> Peaks:
        if not len(members.machine):
            nothing = np.zeros(len(members.capacity))
            return Peaks(nothing, {}, nothing)
        return self.models[resource].peaks(at_seconds, members)

    def collect(self, now: float, gone: Gone) -> None:
        """Deletes members, groups and workloads without samples for too long, in the order of their row ids.

        No slot may be waiting.
        """
        series = self._silent(self.series, self.members, now - gone.series_seconds)
        groups = self._silent(self.groups, self.places, now - gone.group_seconds)
        workloads = self._silent(self.workloads, self.known, now - gone.workload_seconds)
        self._discard(series, groups, workloads)

    def let_go(self, node: int) -> None:
        """Deletes the members and groups of a node that has moved; their workloads are kept."""
        self._leave(node)
        groups = np.flatnonzero(self.places["node"][: self.places.used] == node)
        groups = groups[[self.groups.names[group] is not None for group in groups.tolist()]]
        rows = np.flatnonzero(np.isin(self.members["group"][: self.members.used], groups))
        rows = rows[[self.series.names[row] is not None for row in rows.tolist()]]
        self._discard(rows, groups, np.zeros(0, dtype=np.intp))

    def _silent(self, numbers: RowIds, table: Table, before: float) -> Rows:
        last = table["last"][: table.used]
        return np.flatnonzero((last > _NEVER) & (last < before))

    def _discard(self, series: Rows, groups: Rows, workloads: Rows) -> None:
        if not (len(series) or len(groups) or len(workloads)):
            return
        for model in self.models.values():
            model.forget(groups, series, workloads)
        self.rollouts.discard(workloads)
        absent = series[self.members["present"][series]]
        for node in np.unique(self.places["node"][self.members["group"][absent]]).tolist():
            here = self._here.get(node, absent)
            self._here[node] = here[~np.isin(here, absent)]
        for table, numbers, rows in (
            (self.members, self.series, series),
            (self.places, self.groups, groups),
            (self.known, self.workloads, workloads),
        ):
            table.forget(rows)
            numbers.release(rows.tolist())

    def _by_group(self, rows: Rows, usage: Floats) -> tuple[Rows, Floats]:
        order = np.argsort(self.members["group"][rows], kind="stable")
        return rows[order], usage[order]

    def state(self) -> State:
        """Returns a copy of all state except names and models."""
        samples = [(slot, *self.waiting[slot].rows_and_usage()) for slot in sorted(self.waiting)]
        waiting = {
            "slots": np.concatenate([np.zeros(0, np.int64), *(np.full(len(rows), slot) for slot, rows, _ in samples)]),
            "rows": np.concatenate([np.zeros(0, np.intp), *(rows for _, rows, _ in samples)]),
            "usage": np.concatenate([np.zeros((0, 2)), *(usage for _, _, usage in samples)]),
        }
        tables = {"members": self.members, "places": self.places, "known": self.known}
        arrays = {name: array for part, table in tables.items() for name, array in named(part, table.state()).items()}
        return {**arrays, **named("rollouts", self.rollouts.state()), **named("waiting", waiting)}

    def names(self) -> dict[str, Any]:
        """Returns the names in JSON types."""
        allocators = {"series": self.series, "groups": self.groups, "workloads": self.workloads}
        return {name: [list(allocator.names), list(allocator.free)] for name, allocator in allocators.items()}

    def restore(self, state: Mapping[str, NDArray[Any]], names: Mapping[str, Any], version: int = 4) -> None:
        """Restores what `state` and `names` returned. Raises InvalidInput, KeyError or ValueError if it does not
        fit.
        """
        if version < 4:
            state = {**state, "members.revision": np.zeros_like(state["members.last"])}
        self.series, self.groups, self.workloads = (RowIds(*names[kind]) for kind in ("series", "groups", "workloads"))
        for part, table in (("members", self.members), ("places", self.places), ("known", self.known)):
            table.restore(part_of(state, part))
        if version < 4:
            self._begin_to_notice()
        else:
            self.rollouts.restore(part_of(state, "rollouts"))
        waiting = part_of(state, "waiting")
        self.waiting = {}
        for slot in np.unique(waiting["slots"]).tolist():
            mine = waiting["slots"] == slot
            self.waiting.setdefault(slot, Slot()).add(waiting["rows"][mine], waiting["usage"][mine])
        rows = np.flatnonzero(self.members["present"][: self.members.used])
        nodes = self.places["node"][self.members["group"][rows]]
        order = np.argsort(nodes, kind="stable")
        cuts = np.flatnonzero(np.diff(nodes[order])) + 1
        self._here = {int(nodes[part[0]]): rows[part] for part in np.split(order, cuts) if len(part)}

    def _begin_to_notice(self) -> None:
        """Learns present requests as known, for a snapshot from before rollouts were detected."""
        rows = np.flatnonzero(self.members["last"][: self.members.used] > _NEVER)
        asked = (self.members[column][rows] for column in _ASKED)
        workloads = self.members["workload"][rows].astype(np.intp)
        self.rollouts.learn(Sighting(workloads, np.zeros(len(rows), dtype=bool), *asked))


def kind_of(tier: Rows | int, qos: Rows | int) -> Rows:
    """Returns the class of a workload from the numbers of its tier and its QoS class."""
    return np.asarray(np.multiply(tier, len(QOS)) + qos, dtype=np.intp)


def largest_of_each(rows: Rows, usage: Floats) -> tuple[Rows, Floats]:
    """Returns each row once, in order, with the largest of its amounts (n, 2); NaN only if it has no other."""
    order = np.argsort(rows, kind="stable")
    rows, usage = rows[order], usage[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    if len(starts) == len(rows):
        return rows, usage
    return rows[starts], np.fmax.reduceat(usage, starts, axis=0)
