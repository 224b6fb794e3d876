"""The document run-summary.json: what every scene showed, whether everything was put back, and the exit status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from slackwater.demo.machine.other_work import OtherWork
from slackwater.demo.scene import Value
from slackwater.demo.verdict import Word

EXIT_SHOWN, EXIT_BROKEN, EXIT_NOTHING_SHOWN = 0, 2, 3


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class TurnSummary(_Part):
    """One turn: its figures by key of their column, what other processes took meanwhile, and its length."""

    variant: str
    values: Mapping[str, Value] = {}
    other: OtherWork = OtherWork()
    seconds: float = 0.0


class Comparison(_Part):
    """A figure without and with Slackwater, as median and spread over the turns, and the word on it. `why` says what
    kept it from being told."""

    figure: str
    without: str
    with_slackwater: str
    word: Word | None = None
    why: str = ""


class SceneSummary(_Part):
    """A scene of the run. `left_out` says why it was not shown; `rows` are the cells of `columns`, a row per turn."""

    plan: str = ""
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    turns: tuple[TurnSummary, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    left_out: str = ""
    took_seconds: float = 0.0
    picture: str = ""
    """The file of its SVG, empty without one."""

    @property
    def is_shown(self) -> bool:
        return bool(self.turns) and not self.left_out


class RunSummary(_Part):
    """One run. `is_over` once all scenes had their turn, `finished` after everything was stopped and checked."""

    driver: str
    machine: Mapping[str, Any]
    started_at: datetime
    seconds: int | None
    scene: str = "all"
    """The scene that was asked for."""
    scenes: Mapping[str, SceneSummary] = {}
    """By name, in the order of the run."""
    commands: tuple[str, ...] = ()
    """What a user may try next."""
    console_url: str = ""
    took_seconds: float = 0.0
    is_over: bool = False
    stays_up: bool = False
    """The table was printed after the scenes, and the stack went on until it was stopped."""
    restored_exactly: bool | None = None
    restored_files: int = 0
    leftovers: tuple[str, ...] = ()
    finished: bool = False
    failures: tuple[str, ...] = ()
    exit: int | None = None
    """The exit status, once `finished`; None of an interrupted run. make itself exits with 2 for every one but 0."""


def failures(summary: RunSummary) -> tuple[str, ...]:
    """Returns what was promised and not done, one line each."""
    problems = [text for scene in summary.scenes.values() for text in scene.failures]
    if not summary.finished:
        return tuple(problems)
    problems += [f"left behind: {leftover}" for leftover in summary.leftovers]
    if summary.restored_exactly is None:
        problems.append("the agent wrote no restore report: whether every file was restored is unknown")
    elif not summary.restored_exactly:
        problems.append("not every file has its original value")
    return tuple(problems)


def exit_status(summary: RunSummary) -> int | None:
    """Returns 2 if a promise was broken, 3 if no scene was shown, else 0; None where the run was interrupted."""
    if failures(summary):
        return EXIT_BROKEN
    if any(scene.is_shown for scene in summary.scenes.values()):
        return EXIT_SHOWN if summary.is_over else None
    return EXIT_NOTHING_SHOWN if summary.is_over else None


EXITS: Final = {
    EXIT_SHOWN: "every promise was kept",
    EXIT_BROKEN: "something that Slackwater promises was not done",
    EXIT_NOTHING_SHOWN: "no scene could be shown on this machine",
    None: "interrupted",
}
