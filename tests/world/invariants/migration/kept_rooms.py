"""Room that documents keep: it goes the way of its states, and a pod uses one of those that are open to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.migration.move_commits import MoveBooks, MoveCommit, move_commit_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.descheduling.placement import PlacedPod
from slackwater.reservations.lifecycle import broken_invariants
from slackwater.reservations.reservation import Reservation, ReservationPhase


class PodsUseOneReservation(Invariant):
    """A reservation of a document keeps its invariants from commit to commit. A pod is bound to one of them, on its
    node, and to none while another of a lower order above 0 was open to it."""

    NAME = "pods use one reservation"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.POD_STARTED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._books = MoveBooks()
        self._pods: dict[str, PlacedPod] = {}
        """All that ever ran, with what documents of the world select by."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.POD_STARTED:
            uid, detail = step.subject, step.detail
            created_s = self.world.clock_of(step.process).seconds()
            self._pods[uid] = PlacedPod(
                uid, uid, "", str(detail["node"]), workload=str(detail["workload"]), created_s=created_s
            )
            return
        commit = move_commit_of(step)
        if commit is None:
            return
        since = {name: stored.reservation.since_s for name, stored in self._books.reservations.items()}
        self._books.apply(commit)
        self._check_changes(commit)
        self._check_owners()
        for name, (old, new) in commit.reservations.items():
            if new is not None and not new.job:
                known = old.reservation.allocated if old is not None else {}
                for uid in new.reservation.allocated.keys() - known.keys():
                    self._check_binding(name, uid, new.reservation, since)

    def _check_changes(self, commit: MoveCommit) -> None:
        for name, (old, new) in commit.reservations.items():
            if old is None or new is None or old.job or new.job:
                continue
            if old.reservation.created_s == new.reservation.created_s:
                for broken in broken_invariants(old.reservation, new.reservation):
                    raise Violation(f"reservation {name}: {broken}")

    def _check_owners(self) -> None:
        users: dict[str, str] = {}
        for name, stored in self._books.reservations.items():
            for uid in () if stored.job else stored.reservation.allocated:
                if users.setdefault(uid, name) != name:
                    raise Violation(f"pod {uid} uses {users[uid]} and {name}")

    def _check_binding(self, name: str, uid: str, bound: Reservation, since: Mapping[str, float]) -> None:
        """`since`: since when each reservation was in its phase, before the commit. One that is open after it, and was
        in its phase before, was open to the pod as well: bindings only take."""
        pod = self._pods.get(uid)
        if pod is None or pod.node != bound.placed_on:
            raise Violation(f"reservation {name} has the owner {uid}, which never ran on {bound.placed_on}")
        if not bound.allows(pod):
            raise Violation(f"reservation {name} has the owner {uid} of {pod.workload}, which it does not allow")
        for other, stored in self._books.reservations.items():
            kept = stored.reservation
            was_open = not stored.job and kept.since_s == since.get(other) and kept.since_s <= pod.created_s
            if was_open and _is_open(kept, pod) and _order(kept) < _order(bound):
                raise Violation(f"pod {uid} uses {name} of order {bound.order}, and not {other} of order {kept.order}")


def _is_open(kept: Reservation, pod: PlacedPod) -> bool:
    has_room = kept.allocate_once or any(kept.unallocated().values())
    return kept.phase is ReservationPhase.AVAILABLE and kept.placed_on == pod.node and kept.allows(pod) and has_room


def _order(kept: Reservation) -> float:
    return kept.order if kept.order > 0 else float("inf")


INVARIANTS = (PodsUseOneReservation,)
