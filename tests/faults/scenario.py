"""Scenarios, their results, and the tolerance of their judgement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.oracle import Findings


class Skipped(Exception):
    """The scenario cannot run here; the reason is reported."""


class Failed(AssertionError):
    """A guarantee did not hold; the message names it."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """Counts are judged exactly. Times are judged against `patience` times their bound, because a shared machine is
    slower; `scale` shortens long phases (1.0: full length)."""

    patience: float = 1.0
    scale: float = 1.0


FULL = Strictness()
CHOSEN = Strictness(patience=6.0, scale=0.25)


@dataclass(slots=True)
class Result:
    """Written as one JSON line. `facts` are figures of this scenario only; `promises` are the checked guarantees, each
    True or False."""

    findings: Findings = field(default_factory=Findings)
    recovery_seconds: list[float] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    promises: dict[str, bool] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    """A text table, printed below the outcome and on the page."""
    max_rss_bytes: int = 0

    def promise(self, text: str, kept: bool) -> None:
        """Record one guarantee; all are judged at the end, so that one failure does not hide another."""
        self.promises[text] = self.promises.get(text, True) and kept

    @property
    def passed(self) -> bool:
        return self.findings.clean and all(self.promises.values())

    def complaints(self) -> list[str]:
        broken = [text for text, kept in self.promises.items() if not kept]
        return broken + ([] if self.findings.clean else [str(self.findings)])


Run = Callable[[Path, Strictness], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`run` gets an empty folder and stops everything it started. `minutes` is the expected full duration."""

    name: str
    title: str
    run: Run
    minutes: float = 1.0
    needs_root: bool = False
    by_name: bool = False
    """Left out of a run of all."""


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank; 0 for nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
