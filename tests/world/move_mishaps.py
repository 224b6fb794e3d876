"""What goes wrong between the end of an old pod and the answer to the start of the new one, and in the middle of a
round.

Drawn when it happens: faults of a plan meet these few seconds too seldom. All of it is over before the faults are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Final

from tests.world.faults import MACHINE_VANISHES
from tests.world.move_machines import MoveMachine
from tests.world.moved_files import MovedFiles
from tests.world.plan import BROKER, MIGRATION, POSTGRES, PlannedFault, replicas
from tests.world.trace import Kind, Step
from tests.world.world import World

SHARE: Final = 0.3
LONGEST_SECONDS: Final = 12.0
FIRST_PAUSE_SECONDS, SLOW_SECONDS, PAUSED_SECONDS = 12.0, 3.0, (3.5, 4.9)
LEDGER: Final = "arbitration"
"""The table whose row each commit of a round writes."""
_ACTS: Final = ("agent", "agent", "machine", "deciders", "decider", "power", "cut answers", "freeze")


class MoveMishaps:
    """Meets the end and the start of pods that a move starts again."""

    def __init__(self, world: World, files: MovedFiles, begin: Callable[[PlannedFault], None]) -> None:
        """`begin` begins a fault and ends it in time."""
        self._world = world
        self._files = files
        self._begin = begin
        self._rng = world.random("mishaps of moves")
        world.trace.listen(Kind.POD_ENDED, self._on_pod)
        world.trace.listen(Kind.POD_STARTED, self._on_pod)

    def _on_pod(self, step: Step) -> None:
        machine = self._world.machines.get(step.process)
        is_started = step.kind is Kind.POD_STARTED
        if machine is None or not self._files.has(step.subject) or (is_started and "start" not in step.detail):
            return
        late = self._world.plan.fault_seconds - LONGEST_SECONDS - 3.0
        if 10.0 < step.at < late and self._rng.random() < SHARE:
            act, seconds = self._rng.choice(_ACTS), self._rng.uniform(0.5, LONGEST_SECONDS)
            delay_seconds = self._rng.choice((0.0, 0.3, 2.0))
            self._world.loop.call_later(delay_seconds, self._act, act, machine, seconds, context=Context())

    def _act(self, act: str, machine: MoveMachine, seconds: float) -> None:
        world = self._world
        if act == "agent":
            world.crash(machine.name, restart_after=seconds)
        elif act == "machine":
            self._begin(PlannedFault(MACHINE_VANISHES.name, machine.name, world.loop.time(), seconds))
        elif act == "deciders":
            for name in replicas(world.plan, MIGRATION):
                world.crash(name, restart_after=seconds)
        elif act == "decider":
            world.crash(self._rng.choice(replicas(world.plan, MIGRATION)), restart_after=seconds)
        elif act == "power":
            self._begin(PlannedFault("power of the broker fails", BROKER, world.loop.time(), min(seconds, 2.0)))
        elif act == "cut answers":
            self._begin(PlannedFault("cut answers", f"{machine.name}>{BROKER}", world.loop.time(), seconds))
        else:
            self._begin(PlannedFault("freeze", machine.name, world.loop.time(), seconds))


class RoundPauses:
    """The replica of migration that decides stands still for longer than its lease. Statements are slow just before, so
    that it most often does between the beginning of a round and its commit. A pause that were longer than the time
    limit of a statement would end its round."""

    def __init__(self, world: World, begin: Callable[[PlannedFault], None]) -> None:
        self._world = world
        self._begin = begin
        self._rng = world.random("paused rounds")
        self._decider = ""
        world.trace.listen(Kind.COMMITTED, self._on_commit)
        self._later(FIRST_PAUSE_SECONDS, self._slow_down)

    def _on_commit(self, step: Step) -> None:
        if step.subject == MIGRATION and any(table == LEDGER for table, _ in step.value.written):
            self._decider = step.process

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._world.loop.call_later(seconds, act, context=Context())

    def _slow_down(self) -> None:
        at = self._world.loop.time()
        if at + SLOW_SECONDS + PAUSED_SECONDS[1] < self._world.plan.fault_seconds:
            self._begin(PlannedFault("slow statements", POSTGRES, at, SLOW_SECONDS, self._rng.uniform(0.2, 0.5)))
            self._later(self._rng.uniform(0.6, 1.0) * SLOW_SECONDS, self._pause)

    def _pause(self) -> None:
        seconds = self._rng.uniform(*PAUSED_SECONDS)
        if self._decider:
            self._begin(PlannedFault("freeze", self._decider, self._world.loop.time(), seconds))
        self._later(seconds + self._rng.uniform(3.0, 7.0), self._slow_down)
