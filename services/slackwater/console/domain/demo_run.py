"""The last run of the demo, as the console shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DemoComparison:
    """A figure without and with Slackwater, the word on it, and why it is too few to tell."""

    figure: str
    without: str = ""
    with_slackwater: str = ""
    word: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class DemoSceneView:
    """A scene: what it does, a table with a row per turn, and how its figures compare. Text is shown as the demo wrote
    it. `left_out` says why the scene was not shown; `has_picture` is false where nothing was measured.
    """

    name: str
    plan: str = ""
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    comparisons: tuple[DemoComparison, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    left_out: str = ""
    has_picture: bool = False

    @property
    def outcome(self) -> str:
        """`failed`, `left out`, `shown`, or `pending`: its first turn is not over yet."""
        if self.failures or self.left_out:
            return "failed" if self.failures else "left out"
        return "shown" if self.rows else "pending"


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
