"""The ports of a backtest: models, a stopwatch and a progress display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from slackwater.peaks.port import PeakModel

Stopwatch = Callable[[], float]
"""Returns seconds from an arbitrary zero."""


class BacktestProgress(Protocol):
    """Displays progress, in cells of five minutes over all placements."""

    def begin(self, cells: int) -> None:
        """Called when the trace has been read; `cells` is the total work."""
        ...

    def advance(self, cells: int) -> None:
        """Called when `cells` more are done."""
        ...


@dataclass(frozen=True, slots=True)
class Contender:
    """A model with its label and settings. Every placement uses a new instance."""

    label: str
    version: str
    settings: Mapping[str, object]
    """JSON values by name, including defaults."""
    make: Callable[[], PeakModel]
