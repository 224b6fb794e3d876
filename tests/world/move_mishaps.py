"""What goes wrong between the end of an old pod and the answer to the start of the new one.

Drawn when it happens: faults of a plan meet these few seconds too seldom. All of it is over before the faults are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Final

from tests.world.faults import MACHINE_VANISHES
from tests.world.move_machines import MoveMachine
from tests.world.moved_files import MovedFiles
from tests.world.plan import MIGRATION, PlannedFault, replicas
from tests.world.trace import Kind, Step
from tests.world.world import World

SHARE: Final = 0.3
LONGEST_SECONDS: Final = 12.0
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
            self._begin(PlannedFault("power of the broker fails", "broker", world.loop.time(), min(seconds, 2.0)))
        elif act == "cut answers":
            self._begin(PlannedFault("cut answers", f"{machine.name}>broker", world.loop.time(), seconds))
        else:
            self._begin(PlannedFault("freeze", machine.name, world.loop.time(), seconds))
