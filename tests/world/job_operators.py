"""Operators of a world of moves: they apply PodMigrationJobs, pause and delete them, and abort moves of profiles.

They choose among the pods that run, that move, or that are gone, and use few names, so that jobs meet. A request is
served by a replica of migration in its process, as its route would.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context
from typing import Any, Final

from tests.world.changes import OPERATOR, Confirmed, apply_change
from tests.world.move_fleet import MoveFleet
from tests.world.plan import MIGRATION, PlannedChange
from tests.world.trace import Kind as StepKind
from tests.world.world import Place, World

from slackwater.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from slackwater.resources.kinds.pod_migration_job import POD_MIGRATION_JOB

BEGIN_SECONDS, PAUSE_SECONDS = 10.0, (0.8, 5.0)
FILES_SECONDS: Final = (1.0, 4.0)
NAMES: Final = tuple(f"job-{number}" for number in range(8))
KIND: Final = "PodMigrationJob"
ABORT: Final = "abort"
"""Of a job that no document asks for."""


class JobOperators:
    """Act during the faults, each time after a pause."""

    def __init__(self, world: World, fleet: MoveFleet) -> None:
        self._world = world
        self._fleet = fleet
        self._rng = world.random("operators of jobs")
        self._specs: dict[str, Mapping[str, Any]] = {}
        self._of_files = world.random("operators of workload files")
        self._file_moves = 0
        self._specs_of_files: dict[str, Mapping[str, Any]] = {}
        self._busy = self._rng.choice((0.5, 1.0, 1.0, 3.0))
        world.loop.call_later(BEGIN_SECONDS, self._act, context=Context())
        world.loop.call_later(BEGIN_SECONDS, self._move_files, context=Context())

    def _act(self) -> None:
        if self._world.loop.time() >= self._world.plan.fault_seconds:
            return
        pause = self._rng.uniform(*PAUSE_SECONDS) * self._busy
        self._world.loop.call_later(pause, self._act, context=Context())
        places = self._serving()
        if not places:
            return
        place, drawn = self._rng.choice(places), self._rng.random()
        if drawn < 0.55 or not self._specs:
            name = self._rng.choice(NAMES)
            self._specs[name] = self._spec()
            self._change(place, "put", name)
        elif drawn < 0.80:
            self._change(place, "delete", self._rng.choice(sorted(self._specs)))
        elif drawn < 0.90:
            name = self._rng.choice(sorted(self._specs))
            self._specs[name] = {**self._specs[name], "paused": not self._specs[name].get("paused", False)}
            self._change(place, "put", name)
        else:
            self._abort_proposal(place)

    def _spec(self) -> Mapping[str, Any]:
        uid = self._rng.choice(
            sorted(self._fleet.hosted)[-12:] if self._rng.random() < 0.7 else sorted(self._running())
        )
        pod = self._fleet.hosted[uid].pod
        by_name = {"namespace": pod.namespace, "name": pod.name}
        return {
            "podRef": {"uid": uid} if self._rng.random() < 0.7 else by_name,
            "mode": "ReservationFirst" if self._rng.random() < 0.75 else "EvictDirectly",
            "ttl": self._rng.choice(("5s", "15s", "30s", "40s")),
            "waitLimit": self._rng.choice(("5s", "20s", "40s")),
            "priority": self._rng.choice((0, 0, 5)),
            "paused": self._rng.random() < 0.1,
            "dryRun": self._rng.random() < 0.07,
        }

    def _move_files(self) -> None:
        """Move a pod that its move has to start again, or end such a move."""
        files, rng = self._fleet.files, self._of_files
        if files is None or self._world.loop.time() >= self._world.plan.fault_seconds:
            return
        self._world.loop.call_later(rng.uniform(*FILES_SECONDS), self._move_files, context=Context())
        places, running = self._serving(), files.running()
        if not places:
            return
        place = rng.choice(places)
        if self._file_moves and rng.random() < 0.2:
            self._change(place, "delete", f"file-{max(1, self._file_moves - rng.randint(0, 2))}")
        elif running:
            self._file_moves += 1
            name = f"file-{self._file_moves}"
            self._specs_of_files[name] = {
                "podRef": {"uid": rng.choice(sorted(running))},
                "mode": "ReservationFirst" if rng.random() < 0.95 else "EvictDirectly",
                "ttl": rng.choice(("15s", "40s", "40s")),
                "waitLimit": "20s",
            }
            self._change(place, "put", name)

    def _serving(self) -> list[Place]:
        return [place for name, place in self._world.places.items() if name.startswith(MIGRATION) and place.is_serving]

    def _running(self) -> list[str]:
        found = [uid for machine in self._fleet.machines.values() for uid in machine.pods]
        return found or sorted(self._fleet.hosted)

    def _change(self, place: Place, verb: str, name: str) -> None:
        spec = (self._specs_of_files | self._specs)[name] if verb == "put" else {}
        planned = PlannedChange(self._world.loop.time(), verb, KIND, name, spec)
        self._world.changes.append(planned)
        assert place.process is not None
        place.process.start(apply_change(self._world, place.service.changes, planned), "operator")

    def _abort_proposal(self, place: Place) -> None:
        """End a move that no document asks for."""
        table = self._world.postgres.schemas[MIGRATION].tables["jobs"]
        names = [str(dict(zip(table.definition.names, row, strict=True))["name"]) for row in table.committed()]
        proposed = [name for name in names if name not in NAMES and name not in self._specs_of_files]
        if not proposed:
            return
        name = self._rng.choice(sorted(proposed))

        assert place.process is not None
        place.process.start(self._abort(place, name), "operator")

    async def _abort(self, place: Place, name: str) -> None:
        """Recorded as an answer, because no document is deleted."""
        planned, result = PlannedChange(self._world.loop.time(), ABORT, KIND, name), "done"
        try:
            await place.service.changes[POD_MIGRATION_JOB].delete(name, by=OPERATOR)
        except (Conflict, InvalidInput, NotFound, Unavailable) as refusal:
            result = refusal.code
        confirmed = Confirmed(planned, is_done=result == "done")
        self._world.record(StepKind.ANSWERED, name, detail={"verb": ABORT, "result": result}, value=confirmed)
