"""Pods that come to the nodes on which room is kept for them (tests.world.kept_rooms); no controller replaces them."""

from __future__ import annotations

from contextvars import Context
from typing import Final

from tests.world.kept_rooms import BEGIN_SECONDS, EXPECTED, favoured
from tests.world.move_fleet import MovedWorkload, MoveFleet
from tests.world.world import World

from slackwater.model.tiers import Tier

PAUSE_SECONDS: Final = (1.0, 6.0)
MOST_RUNNING: Final = 40
WORKLOAD: Final = MovedWorkload(EXPECTED, Tier.PROD, MOST_RUNNING, 20, 50)


class Arrivals:
    """Start a pod after each pause, until the faults are over."""

    def __init__(self, world: World, fleet: MoveFleet) -> None:
        self._world = world
        self._fleet = fleet
        self._rng = world.random("arrivals")
        self._nodes = favoured(world.plan)
        world.loop.call_later(BEGIN_SECONDS, self._start, context=Context())

    def _start(self) -> None:
        if self._world.loop.time() >= self._world.plan.fault_seconds:
            return
        self._world.loop.call_later(self._rng.uniform(*PAUSE_SECONDS), self._start, context=Context())
        machines = [machine for machine in self._fleet.machines.values() if machine.is_on]
        wanted = [machine for machine in machines if machine.node in self._nodes]
        if wanted and len(self._fleet.running(EXPECTED)) < MOST_RUNNING:
            machine = self._rng.choice(wanted if self._rng.random() < 0.8 else machines)
            self._fleet.start(WORKLOAD, machine)
