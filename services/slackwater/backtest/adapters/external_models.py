"""Runs models of other distributions on a trace. An exception or an invalid result is an error that names the model.

Prediction replaces a failed model by the limits (slackwater.peaks.plugin_sandbox). A backtest must not: its figures
would then describe neither model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from slackwater.model.errors import Misconfigured, SlackwaterError
from slackwater.peaks.port import Floats, Members, PeakModel, Peaks
from slackwater.traces.moments import by_machine

_LONGEST = 300
T = TypeVar("T")


class ExternalModel:
    """A peak model with its results validated. Raises Misconfigured.

    `origin` names the model and its distribution in messages.
    """

    def __init__(self, origin: str, make: Callable[[], PeakModel]) -> None:
        self._origin = origin
        self._model = self._call("the factory", make)
        identity = (getattr(self._model, "name", None), getattr(self._model, "version", None))
        if not all(isinstance(part, str) for part in identity):
            raise self._error(f"the factory returned {type(self._model).__name__}, which lacks name or version")
        self.name, self.version = self._model.name, self._model.version

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        self._call("fold", lambda: self._model.fold(at_seconds, members, usage))

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        """Returns peaks bounded by the limits, as prediction bounds them, and 0 for machines without members."""
        result = self._call("peaks", lambda: self._model.peaks(at_seconds, members))
        total = by_machine(members.machine, members.limit, len(members.capacity))
        here = np.zeros(len(total), bool)
        here[members.machine] = True
        peak = getattr(result, "peak", None)
        if not isinstance(peak, np.ndarray) or peak.shape != total.shape or peak.dtype.kind not in "fiu":
            raise self._error(f"peaks returned no array with one peak per machine: {result!r}"[:_LONGEST])
        bad = here & ~(np.isfinite(peak) & (peak >= 0))
        if bad.any():
            raise self._error(f"peaks returned {peak[bad][0]} for {np.count_nonzero(bad)} of {here.sum()} machines")
        bounded = np.where(here, np.minimum(np.where(here, peak, 0), total), 0)
        return Peaks(bounded, result.terms, result.cold_share, result.inputs)

    def _call(self, what: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except SlackwaterError:
            raise
        except Exception as error:
            raise self._error(f"{what} raised {type(error).__name__}: {error}"[:_LONGEST]) from error

    def _error(self, problem: str) -> Misconfigured:
        return Misconfigured(f"{self._origin}: {problem}; fix the model, or list the other models by name")
