"""What a scene is: a declaration of variants, figures and promises over the one runner (slackwater.demo.runner).

A scene takes turns: one variant after another on the same machine, each turn measured into a record. What the record
means is declared too, so that table, picture and verdict follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from slackwater.demo.verdict import Better

if TYPE_CHECKING:  # a stage holds the running stack; a declaration does not need it
    from slackwater.demo.stage import Stage

R = TypeVar("R")
Value = float | int | str | bool | None
Document = tuple[str, str, Mapping[str, Any]]
"""The path of a kind, a name and a spec."""
RunTurn = Callable[[str], Awaitable[R]]
"""Runs one turn of the variant of this name and returns its record. The policy of the variant is in force."""


@dataclass(frozen=True, slots=True)
class SceneVariant:
    """One of the ways in which the situation is shown. `nodeqos` replaces fields of the NodeQOS spec in force, and
    `documents` are written beside it, during its turns."""

    name: str
    title: str
    nodeqos: Mapping[str, Any] = field(default_factory=dict)
    documents: Sequence[Document] = ()


@dataclass(frozen=True, slots=True)
class TurnFigure(Generic[R]):
    """A figure of a turn. It is compared between the two variants of the scene with `better` if it is measured, with
    `counted` if a repetition would show the same."""

    key: str
    heading: str
    value: Callable[[R], Value]
    unit: str = ""
    digits: int = 0
    better: Better | None = None
    counted: Better | None = None

    @property
    def goal(self) -> Better | None:
        """Which of two values is better; None of a figure that is not compared."""
        return self.counted or self.better


@dataclass(frozen=True, slots=True)
class Promise(Generic[R]):
    """What Slackwater does in a turn, whatever the machine's speed. Its break fails the run; `seen` says what was there
    instead. It holds for every variant, or for those that are named."""

    text: str
    holds: Callable[[R], bool]
    variants: Sequence[str] = ()
    seen: Callable[[R], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Series(Generic[R]):
    """A figure over the seconds of a turn, drawn as a line per variant. `limit` is a level to compare it with."""

    title: str
    points: Callable[[R], Sequence[tuple[float, float]]]
    limit: float | None = None
    limit_title: str = ""


@dataclass(frozen=True, slots=True)
class DemoScene(Generic[R]):
    """A scene. A round is one turn of each variant; `setup_seconds` and `round_seconds` are upper estimates on a quiet
    machine, by which a run of limited time chooses its scenes before it begins."""

    name: str
    plan: str
    """What it does, in one line without its name."""
    title: str
    """Of its table and picture."""
    variants: Sequence[SceneVariant]
    compared: tuple[str, str]
    """The variants without and with Slackwater, by name; the first is empty where there is nothing to compare with."""
    columns: Sequence[TurnFigure[R]]
    promises: Sequence[Promise[R]]
    opened: Callable[[Stage], AbstractAsyncContextManager[RunTurn[R]]]
    """Sets the situation up, and takes it down after the turns."""
    setup_seconds: float
    round_seconds: float
    rounds: int = 1
    """In a run without a limit of time."""
    series: Sequence[Series[R]] = ()
    note: Callable[[R], str] = lambda _: ""
    """What a reader must know of a turn to understand its figures; empty if nothing."""
    memory_mib: int = 0
    disk_mib: int = 0
    """What must be available, so that the machine itself is not in want; the scene is left out without it."""
    driver: Literal["linux", "simulated"] = "linux"
    is_optional: bool = False
    """Runs only when it is asked for by name."""
    needs_quiet_cpu: bool = True
    """Counted figures that are equal tell nothing where other processes used the CPU."""
    is_sequence: bool = False
    """The variants are stages that follow from each other, so their order never changes."""

    def seconds(self, rounds: int) -> float:
        """Returns the estimate for so many rounds."""
        return self.setup_seconds + self.round_seconds * rounds

    def variant(self, name: str) -> SceneVariant:
        return next(variant for variant in self.variants if variant.name == name)

    def order(self, number: int) -> list[SceneVariant]:
        """Returns the variants of a round (from 0), alternately forward and backward: A B C, C B A, A B C."""
        return list(self.variants if self.is_sequence or number % 2 == 0 else reversed(self.variants))
