"""What a backtest needs from outside: models, a stopwatch, and somebody who wants to know how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from slackwater.peaks.port import PeakModel

Stopwatch = Callable[[], float]
"""Seconds from any zero."""


class BacktestProgress(Protocol):
    """Somebody who wants to know how far it is, in cells of five minutes over all placements."""

    def begin(self, cells: int) -> None:
        """The trace is read; so much is to be done."""
        ...

    def advance(self, cells: int) -> None:
        """So much more is done."""
        ...


@dataclass(frozen=True, slots=True)
class Contender:
    """A model under the name and the settings with which it is judged; every placement gets a new one."""

    label: str
    version: str
    settings: Mapping[str, object]
    """By name, as JSON values; the defaults included."""
    make: Callable[[], PeakModel]
