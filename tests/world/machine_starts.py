"""The starts of a machine of a world of moves, as strict as those of the real agent.

An id is begun once and has one end; what was begun is on disk. Only a file with the same digest is started. A pod that
is not ready in time is ended before it is answered as failed, and one that was launched and is not seen has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random
from typing import Final

from slackwater.events.intent_declared import IntentDeclared, WorkloadStart
from slackwater.events.intent_observed import ObservedStart
from slackwater.model.start_states import StartState

WITHIN_SECONDS, UNSEEN_SECONDS = 12.0, 10.0
READY_SECONDS: Final = (0.1, 6.0)


@dataclass(slots=True)
class BegunStart:
    """A start that is decided. Times are those of the loop, but for the moments of the answer."""

    item: WorkloadStart
    state: StartState
    pod_uid: str = ""
    detail: str = ""
    begun_s: float = 0.0
    ready_s: float = 0.0
    started_at: datetime | None = None
    ready_at: datetime | None = None

    def observed(self) -> ObservedStart:
        return ObservedStart(
            id=self.item.id,
            state=self.state,
            pod_uid=self.pod_uid,
            detail=self.detail,
            started_at=self.started_at,
            ready_at=self.ready_at,
        )


class MachineStarts:
    """The workload files of a machine and what became of each start. It outlives the agent and the boot."""

    def __init__(
        self,
        rng: Random,
        launch: Callable[[WorkloadStart], str],
        runs: Callable[[str], bool],
        end: Callable[[str], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`launch` starts a pod and returns its uid, `end` ends one, `later` calls after so many seconds."""
        self._rng = rng
        self._launch = launch
        self._runs = runs
        self._end = end
        self._later = later
        self.files: dict[str, str] = {}
        """Digest by workload."""
        self._begun: dict[str, BegunStart] = {}

    def consider(self, document: IntentDeclared, now: datetime, at_s: float, *, is_faulty: bool) -> None:
        """Begin what may begin; answer what never will."""
        for item in document.starts:
            if item.id in self._begun:
                continue
            digest = self.files.get(item.workload)
            if now >= item.deadline:
                self._begun[item.id] = BegunStart(item, StartState.EXPIRED, detail="the deadline had passed")
            elif digest != item.digest:
                said = f"the file has the digest {digest or 'none'}"
                self._begun[item.id] = BegunStart(item, StartState.REFUSED, detail=said)
            else:
                self._begin(item, now, at_s, is_faulty=is_faulty)

    def _begin(self, item: WorkloadStart, now: datetime, at_s: float, *, is_faulty: bool) -> None:
        drawn = self._rng.random() if is_faulty else 1.0
        begun = BegunStart(item, StartState.STARTING, begun_s=at_s, started_at=now)
        begun.ready_s = at_s + self._rng.uniform(*READY_SECONDS)
        self._begun[item.id] = begun
        if drawn < 0.08:
            begun.state, begun.detail = StartState.FAILED, "it cannot be launched"
            return
        if drawn < 0.14:  # its process is lost before it begins the pod
            begun.pod_uid = f"lost-{item.id}"
            return
        begun.pod_uid = self._launch(item)
        if drawn < 0.24:
            self._later(self._rng.uniform(0.2, 5.0), partial(self._end_running, begun.pod_uid))
        elif drawn < 0.34:
            begun.ready_s = at_s + 2 * WITHIN_SECONDS

    def _end_running(self, uid: str) -> None:
        if self._runs(uid):
            self._end(uid)

    def follow(self, now: datetime, at_s: float) -> None:
        """The agent looks after what it has begun."""
        for begun in self._begun.values():
            if begun.state is not StartState.STARTING:
                continue
            waited, runs = at_s - begun.begun_s, self._runs(begun.pod_uid)
            is_lost = begun.pod_uid.startswith("lost-")
            if waited >= WITHIN_SECONDS:
                self._end_running(begun.pod_uid)
                begun.state, begun.detail = StartState.FAILED, f"not ready within {WITHIN_SECONDS:g} s"
            elif not runs and (not is_lost or waited >= UNSEEN_SECONDS):
                begun.state, begun.detail = StartState.FAILED, "it has ended"
            elif runs and at_s >= begun.ready_s:
                begun.state, begun.ready_at = StartState.READY, now

    def states(self, document: IntentDeclared) -> tuple[ObservedStart, ...]:
        """The starts of a document that are decided."""
        return tuple(self._begun[item.id].observed() for item in document.starts if item.id in self._begun)
