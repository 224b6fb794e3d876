"""No service logs a defect."""

from __future__ import annotations

from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.trace import Kind, Step

EXPECTED = (
    "journal not written",  # a disk that is full or read-only
    "ledger not readable",  # a disk that loses what was written
    "fact dropped",
    "report dropped",
)
"""Errors that faults of the world cause, and that the component reports as it should."""


class NoDefectIsLogged(Invariant):
    """A line of level error is either the report of a fault, or a defect."""

    NAME = "no defect is logged"
    KINDS: ClassVar = (Kind.LOGGED,)

    def on_step(self, step: Step) -> None:
        line = str(step.detail["line"])
        if not any(expected in line for expected in EXPECTED):
            raise Violation(f"{step.process} ({step.subject}): {line}")


INVARIANTS = (NoDefectIsLogged,)
