"""The result of a scene: its turns, the report that they carry, and when nothing is compared. Pure.

A turn is disturbed if other processes used more than 0.2 CPU while it was measured. `judge` then withholds every
comparison, says which turn it was and by how much, and the run ends with exit status 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from slackwater.demo.scenes.other_work import OtherWork

MOST_OTHER_CPUS: Final = 0.2
"""CPUs of other processes in a turn above which its scene compares nothing."""


class Turn(BaseModel):
    """One turn of a variant. `other` is what other processes took during its measurement."""

    model_config = ConfigDict(frozen=True)

    variant: str
    other: OtherWork = OtherWork()


class Result(BaseModel):
    """The turns of a scene in order. `left_out` says why this machine cannot show it; it has no turns then."""

    model_config = ConfigDict(frozen=True)

    turns: tuple[Turn, ...] = ()
    left_out: str = ""


class SceneReport(BaseModel):
    """What a result says: a table with a row per turn, sentences that it carries, and promises that it breaks."""

    model_config = ConfigDict(frozen=True)

    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    not_measurable: tuple[str, ...] = ()


def judge(name: str, report: SceneReport, result: Result) -> SceneReport:
    """Returns the report as it may be shown: nothing is compared or failed where a turn was disturbed."""
    if result.left_out:
        return SceneReport(not_measurable=(f"{name}: {result.left_out}",))
    reasons = disturbed_turns(result.turns)
    if not reasons:
        return report
    return report.model_copy(
        update={
            "sentences": (f"{name}: nothing is compared, because other processes disturbed it",),
            "failures": (),
            "not_measurable": tuple(f"{name}, {reason}" for reason in reasons),
        }
    )


def disturbed_turns(turns: Sequence[Turn]) -> list[str]:
    """Returns which turns were disturbed by other processes, by how much, and by which of them most."""
    return [
        f"turn {number} ({turn.variant}): other processes used {turn.other.cpus:.2f} CPU, "
        f"more than {MOST_OTHER_CPUS:g}{_busiest(turn.other)}"
        for number, turn in enumerate(turns, 1)
        if turn.other.cpus > MOST_OTHER_CPUS
    ]


def _busiest(other: OtherWork) -> str:
    return f"; most of it {other.busiest}" if other.busiest else ""


def interleaved(variants: Sequence[str], turns: int) -> list[str]:
    """Returns so many turns of each variant, alternately forward and backward: A B C, C B A, A B C."""
    order: list[str] = []
    for number in range(turns):
        order += variants if number % 2 == 0 else tuple(reversed(variants))
    return order


class SceneSummary(SceneReport):
    """The entry of a scene in run-summary.json. `skipped` says why the run had no time for it; `picture` is the file of
    its SVG, empty without one."""

    plan: str = ""
    turns_each: int = 0
    took_seconds: float = 0.0
    skipped: str = ""
    picture: str = ""
    result: Mapping[str, Any] = {}
