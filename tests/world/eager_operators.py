"""Operators that delete a quota through each replica that has just started, before it has read what there is.

A quota with claims must stay. One without is put again some seconds later, so that clients have something to claim.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

from tests.world.changes import apply_change
from tests.world.plan import QUOTA, PlannedChange
from tests.world.processes import Process
from tests.world.trace import Kind, Step
from tests.world.world import Place, World

LOOK_SECONDS, LOOKS = 0.01, 200
"""Between two looks whether a replica serves, and how many there are."""
AGAIN_SECONDS = 3.0


class EagerOperators:
    """Acts during the faults."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.random("eager operators")
        self._specs = {
            change.name: change.spec
            for change in world.plan.changes
            if (change.verb, change.kind) == ("put", "ElasticQuota") and not change.spec.get("isParent")
        }
        world.trace.listen(Kind.STARTED, self._on_started)

    def _on_started(self, step: Step) -> None:
        name = step.subject.partition("/")[0]
        if not name.startswith(QUOTA) or step.at >= self._world.plan.fault_seconds or not self._specs:
            return
        place = self._world.places[name]
        if place.process is not None:
            self._later(0.0, self._look, place, place.process, place.service, LOOKS)

    def _later(self, seconds: float, act: Callable[..., None], *arguments: Any) -> None:
        self._world.loop.call_later(seconds, act, *arguments, context=Context())

    def _look(self, place: Place, process: Process, before: Any, looks: int) -> None:
        if place.process is not process or not process.is_running or not looks:
            return
        if place.service is before:
            self._later(LOOK_SECONDS, self._look, place, process, before, looks - 1)
            return
        for name in self._rng.sample(sorted(self._specs), min(2, len(self._specs))):
            self._change(place, process, "delete", name)
            self._later(AGAIN_SECONDS, self._change, place, process, "put", name)

    def _change(self, place: Place, process: Process, verb: str, name: str) -> None:
        if place.process is process and process.is_running and self._world.loop.time() < self._world.plan.fault_seconds:
            spec = self._specs[name] if verb == "put" else {}
            planned = PlannedChange(self._world.loop.time(), verb, "ElasticQuota", name, spec)
            self._world.changes.append(planned)
            process.start(apply_change(self._world, place.service.changes, planned), "operator")
