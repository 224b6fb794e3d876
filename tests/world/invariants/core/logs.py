"""No service logs a defect."""

from __future__ import annotations

from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.trace import Kind, Step

EXPECTED = (
    "records not readable",  # a disk that loses what was written
    "fact dropped",
    "report dropped",
)
"""Errors that faults of the world cause, and that the component reports as it should."""
WHILE_THE_DISK_REFUSES = ("journal not written", "ledger not written")
"""Errors of an agent whose disk is full or read-only at that moment."""


class NoDefectIsLogged(Invariant):
    """A line of level error is either the report of a fault, or a defect."""

    NAME = "no defect is logged"
    KINDS: ClassVar = (Kind.LOGGED,)

    def on_step(self, step: Step) -> None:
        line = str(step.detail["line"])
        station = self.world.stations.get(step.process)
        refuses = station is not None and (station.disk.room is not None or station.disk.is_read_only)
        expected = (*EXPECTED, *(WHILE_THE_DISK_REFUSES if refuses else ()))
        if not any(words in line for words in expected):
            raise Violation(f"{step.process} ({step.subject}): {line}")


INVARIANTS = (NoDefectIsLogged,)
