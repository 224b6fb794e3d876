"""When an agent stops, and when one has put right what a crashed one left, every file reads as before."""

from __future__ import annotations

from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.machine.station import Station
from tests.world.trace import Kind, Step
from tests.world.world import World

STOPPED = "stopped"
GOODBYE_SECONDS = 1.0
"""At most so long after the restore a stopping agent still publishes: a file that refused then stays claimed."""


class EveryFileReadsAsBefore(Invariant):
    """Files hold what they held before the agent, or what another program has written since. A file that refuses the
    restore is named in the report, and is put right by the next start. A process that is stopped before it has begun
    to work, because it waited for the broker, leaves what it found."""

    NAME = "every file reads as before"
    KINDS: ClassVar = (Kind.STARTED, Kind.RECOVERED, Kind.STOPPED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._starting: set[str] = set()
        """Agents that have not looked at their files yet."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.STARTED:
            self._starting.add(step.subject.partition("/")[0])
        elif step.kind is Kind.RECOVERED:
            self._starting.discard(step.process)
            self.check(step.value, "after the start of an agent")
        elif self._ends_in_order(step):
            self.check(self.world.stations[step.process], "after the stop of the agent")

    def _ends_in_order(self, step: Step) -> bool:
        is_agent = step.process in self.world.stations and step.process not in self._starting
        return is_agent and step.detail.get("why") == STOPPED

    def check(self, station: Station, when: str) -> None:
        """Raises Violation."""
        left = station.machine.kernel.differences()
        if not left or station.time() - station.refused_at <= GOODBYE_SECONDS:
            return
        path, (before, now) = next(iter(left.items()))
        raise Violation(f"{station.node}, {when}: {path} holds {now!r} instead of {before!r}; {len(left)} files differ")


INVARIANTS = (EveryFileReadsAsBefore,)
