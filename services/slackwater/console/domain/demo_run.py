"""The last run of the demo, as the console shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DemoSceneView:
    """A scene: what it does, a table with a row per turn, and what it says. Text is shown as the demo wrote it.

    `skipped` says why the run had no time for it; `has_picture` is false where nothing was measured.
    """

    name: str
    plan: str = ""
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    not_measurable: tuple[str, ...] = ()
    skipped: str = ""
    has_picture: bool = False

    @property
    def outcome(self) -> str:
        """`skipped`, `failed`, `not measurable` or `shown`."""
        if self.skipped:
            return "skipped"
        return "failed" if self.failures else "not measurable" if self.not_measurable else "shown"


@dataclass(frozen=True, slots=True)
class DemoRunView:
    """A run: its scenes in order, the machine it ran on, and whether everything was put back afterwards.

    `finished` is false while the demo runs, and after a run that was killed; `exit` is its status once it is known.
    """

    started_at: datetime
    node: str
    machine: str
    scenes: tuple[DemoSceneView, ...]
    finished: bool = False
    exit: int | None = None
