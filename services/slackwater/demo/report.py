"""What the turns of a scene say: table, comparisons and broken promises, all from its declaration. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from slackwater.demo.machine.other_work import OtherWork
from slackwater.demo.scene import DemoScene, Promise, TurnFigure, Value
from slackwater.demo.summary import Comparison, SceneSummary, TurnSummary
from slackwater.demo.verdict import Word, compare, spread_text
from slackwater.model.plurals import counted

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Turn(Generic[R]):
    """One turn that was taken: its variant, its record, what other processes took meanwhile, and its length."""

    variant: str
    record: R
    other: OtherWork
    seconds: float = 0.0


def report(scene: DemoScene[Any], turns: Sequence[Turn[Any]], cpus: int) -> SceneSummary:
    """Returns the summary of a scene that took these turns."""
    return SceneSummary(
        plan=scene.plan,
        title=scene.title,
        columns=("", *(f"{column.heading}\n{column.unit}".rstrip() for column in scene.columns), "other\nCPU"),
        rows=tuple(_row(scene, turn) for turn in turns),
        turns=tuple(
            TurnSummary(
                variant=turn.variant,
                values={column.key: column.value(turn.record) for column in scene.columns},
                other=turn.other,
                seconds=turn.seconds,
            )
            for turn in turns
        ),
        comparisons=tuple(_compared(scene, column, turns, cpus) for column in scene.columns if column.goal),
        notes=tuple(note for turn in turns if (note := scene.note(turn.record)))[-1:],
        failures=tuple(text for promise in scene.promises for text in _broken(scene, promise, turns)),
    )


def _row(scene: DemoScene[Any], turn: Turn[Any]) -> tuple[str, ...]:
    cells = (cell(column, column.value(turn.record)) for column in scene.columns)
    return (scene.variant(turn.variant).title, *cells, f"{turn.other.cpus:.2f}")


def cell(column: TurnFigure[Any], value: Value) -> str:
    """Returns a value as text, without its unit."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:.{column.digits}f}"


def _compared(scene: DemoScene[Any], column: TurnFigure[Any], turns: Sequence[Turn[Any]], cpus: int) -> Comparison:
    """Returns a figure in both variants, and the word on it with what kept it from being told. Where a machine is
    disturbed, only a figure that was counted can differ: what is measured differs for many reasons, and what is equal
    may have had no chance.
    """
    without, ours = (_values(column, turns, variant) for variant in scene.compared)
    word: Word | None = None
    why = ""
    if scene.compared[0] and column.goal:
        word = compare(without, ours, column.goal, is_exact=bool(column.counted))
        disturbed = disturbance(scene, turns, cpus)
        if disturbed and not (column.counted and (word is not Word.SAME or not scene.needs_quiet_cpu)):
            word = Word.TOO_FEW
        if word is Word.TOO_FEW:
            why = disturbed or f"{counted(len(without), 'turn')} without, {len(ours)} with"
    return Comparison(
        figure=f"{column.heading}, {column.unit}" if column.unit else column.heading,
        without=spread_text(without, column.digits) if scene.compared[0] else "",
        with_slackwater=spread_text(ours, column.digits),
        word=word,
        why=why,
    )


def disturbance(scene: DemoScene[Any], turns: Sequence[Turn[Any]], cpus: int) -> str:
    """Returns what disturbed the turns that are compared most, in words; empty if nothing did."""
    compared = [turn.other for turn in turns if turn.variant in scene.compared]
    most = max(compared, key=lambda other: (bool(other.disturbance(cpus)), other.cpus), default=OtherWork())
    return most.disturbance(cpus)


def _values(column: TurnFigure[Any], turns: Sequence[Turn[Any]], variant: str) -> list[float]:
    values = [column.value(turn.record) for turn in turns if turn.variant == variant]
    return [float(value) for value in values if isinstance(value, int | float)]


def _broken(scene: DemoScene[Any], promise: Promise[Any], turns: Sequence[Turn[Any]]) -> list[str]:
    failures = []
    for number, turn in enumerate(turns, 1):
        if promise.variants and turn.variant not in promise.variants:
            continue
        if not promise.holds(turn.record):
            seen = promise.seen(turn.record)
            where = f"turn {number}, {scene.variant(turn.variant).title}"
            failures.append(f"{scene.name}: not kept: {promise.text} ({where}{': ' if seen else ''}{seen})")
    return failures
