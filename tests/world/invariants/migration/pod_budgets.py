"""Disruption budgets hold: as they are known when a move is admitted, with all moves under way taken off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar, Final

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.migration.move_commits import MoveCommit, admitted, move_commit_of
from tests.world.invariants.payloads import payload_of
from tests.world.move_fleet import SCRIPT
from tests.world.move_machines import NO_EVICTION
from tests.world.plan import BROKER
from tests.world.scripted_budgets import APP
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.migration.domain.stored_jobs import StoredJob

KNOWN_SECONDS: Final = 5.0
"""What was stored so long ago is known to each replica."""
CUT_SECONDS: Final = 45.0
"""The same for one that a fault has met not long ago: it may be cut off from the broker, and not from the database."""
MET_SECONDS: Final = 20.0
STORED_SECONDS: Final = 3.0
"""At the most from the count of the script until it is stored."""


class DisruptionBudgetsHold(Invariant):
    """Where a move is admitted, there is a state of each budget of its pod, no older than a decider may be, that allows
    it together with every other move of such a pod that had not ended the pod when that state was counted. This is what
    arbitration guarantees where no API server refuses evictions: what ends by itself after that state, or after the
    admission, is not foreseen."""

    NAME = "disruption budgets hold"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED, Kind.POD_ENDED, Kind.FAULT_BEGAN, Kind.FAULT_ENDED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._states: dict[str, list[tuple[float, DisruptionBudgetChanged]]] = {}
        """By key, each state with when it was stored. One that is stored again was counted again."""
        self._ended_s: dict[str, float] = {}
        """By pod that an eviction ended, by the clock of the script."""
        self._lost: set[str] = set()
        """Pods that ended by something else."""
        self._met_at: dict[str, float] = {}
        """By target of a fault, when it began or ended last."""
        self._moves: dict[str, StoredJob] = {}
        """By id, all that were admitted; those that ended without an eviction are left out."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.POD_ENDED:
            if step.detail["by"] in NO_EVICTION:
                self._lost.add(step.subject)
            else:
                self._ended_s[step.subject] = self.world.clock_of(SCRIPT).seconds()
        elif step.kind in (Kind.FAULT_BEGAN, Kind.FAULT_ENDED):
            target, ends = str(step.detail["target"]), step.at + float(step.detail.get("seconds", 0.0))
            self._met_at[target] = max(self._met_at.get(target, 0.0), ends)
        elif step.kind is Kind.STORED:
            self._store(step)
        elif (commit := move_commit_of(step)) is not None and self._states:
            self._commit(commit, step.at)

    def _store(self, step: Step) -> None:
        changed = payload_of(step, DisruptionBudgetChanged)
        if changed is not None:
            counted_at = self.world.clock_of(SCRIPT).now() - timedelta(seconds=STORED_SECONDS)
            counted = changed.model_copy(update={"changed_at": max(changed.changed_at, counted_at)})
            self._states.setdefault(changed.key(), []).append((step.at, counted))

    def _commit(self, commit: MoveCommit, at: float) -> None:
        for _, after in commit.jobs.values():
            if after is not None and after.job.admitted_s is not None and not after.job.dry_run:
                self._moves[after.job.id] = after
        known_s = CUT_SECONDS if self._is_met(commit.member, at) else KNOWN_SECONDS
        for stored in admitted(commit):
            for key in self._keys(stored):
                self._check(stored, key, at, known_s)

    def _keys(self, stored: StoredJob) -> Iterator[str]:
        for key, states in self._states.items():
            if _selects(states[-1][1], stored):
                yield key

    def _is_met(self, member: str, at: float) -> bool:
        """Whether a fault of the decider, of its link to the broker or of the broker goes on, or did not long ago."""
        name = member.partition("/")[0]
        times = [self._met_at.get(target, -CUT_SECONDS) for target in (name, f"{name}>{BROKER}", BROKER)]
        return at - max(times) < MET_SECONDS

    def _check(self, stored: StoredJob, key: str, at: float, known_s: float) -> None:
        said = []
        if at - self._states[key][0][0] < known_s:
            return
        for state in self._candidates(key, at, known_s):
            taken = {move.job.pod for move in self._moves.values() if self._takes(move, state)}  # a pod may have two
            if state.gone or len(taken) <= state.allowed:
                return
            said.append(f"{len(taken)} of {state.allowed} at {state.changed_at:%H:%M:%S}")
        raise Violation(f"{stored.job.id} is admitted; {key} has {', '.join(said[-3:])} moves that it allows")

    def _candidates(self, key: str, at: float, known_s: float) -> list[DisruptionBudgetChanged]:
        """What a decider may know: the newest, and those that were the newest not long ago."""
        states = self._states[key]
        until = [when for when, _ in states[1:]] + [at]
        return [state for (_, state), end in zip(states, until, strict=True) if at - end < known_s]

    def _takes(self, move: StoredJob, state: DisruptionBudgetChanged) -> bool:
        """Whether a move has ended its pod since, or is going to."""
        if not _selects(state, move) or move.job.pod in self._lost:
            return False
        ended_s = self._ended_s.get(move.job.pod)
        if ended_s is not None:
            return ended_s > state.changed_at.timestamp()
        return move.is_live


def _selects(state: DisruptionBudgetChanged, stored: StoredJob) -> bool:
    app = stored.pod.workload.rpartition("/")[2]
    is_selected: bool = state.selector.get("matchLabels", {}).get(APP, app) == app
    return is_selected and stored.pod.namespace == state.namespace


INVARIANTS = (DisruptionBudgetsHold,)
