"""When an agent stops, and when one has put right what a crashed one left, every file reads as before."""

from __future__ import annotations

from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.machine.station import Station
from tests.world.trace import Kind, Step

STOPPED = "stopped"
GOODBYE_SECONDS = 1.0
"""At most so long after the restore a stopping agent still publishes: a file that refused then stays claimed."""


class EveryFileReadsAsBefore(Invariant):
    """Files hold what they held before the agent, or what another program has written since. A file that refuses the
    restore is named in the report, and is put right by the next start."""

    NAME = "every file reads as before"
    KINDS: ClassVar = (Kind.RECOVERED, Kind.STOPPED)

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.RECOVERED:
            self.check(step.value, "after the start of an agent")
        elif step.process in self.world.stations and step.detail.get("why") == STOPPED:
            self.check(self.world.stations[step.process], "after the stop of the agent")

    def check(self, station: Station, when: str) -> None:
        """Raises Violation."""
        left = station.machine.kernel.differences()
        if not left or station.time() - station.refused_at <= GOODBYE_SECONDS:
            return
        path, (before, now) = next(iter(left.items()))
        raise Violation(f"{station.node}, {when}: {path} holds {now!r} instead of {before!r}; {len(left)} files differ")


INVARIANTS = (EveryFileReadsAsBefore,)
