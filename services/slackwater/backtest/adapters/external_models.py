"""Models of other distributions on a trace: what they raise or make up is an error that names them.

In service the limits stand in for such a model (slackwater.peaks.plugin_sandbox). Here that would be a
figure of a model that nobody has.
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
    """The same model. `who` says in messages which one it is, and of which distribution. Raises Misconfigured."""

    def __init__(self, who: str, make: Callable[[], PeakModel]) -> None:
        self._who = who
        self._model = self._asked("the factory", make)
        found = (getattr(self._model, "name", None), getattr(self._model, "version", None))
        if not all(isinstance(one, str) for one in found):
            raise self._wrong(f"the factory gave {type(self._model).__name__}, which lacks name or version")
        self.name, self.version = self._model.name, self._model.version

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        self._asked("fold", lambda: self._model.fold(at_seconds, members, usage))

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        """As in service never more than the limits, and nothing where nobody is."""
        found = self._asked("peaks", lambda: self._model.peaks(at_seconds, members))
        total = by_machine(members.machine, members.limit, len(members.capacity))
        here = np.zeros(len(total), bool)
        here[members.machine] = True
        peak = getattr(found, "peak", None)
        if not isinstance(peak, np.ndarray) or peak.shape != total.shape or peak.dtype.kind not in "fiu":
            raise self._wrong(f"peaks gave no peak of each machine: {found!r}"[:_LONGEST])
        bad = here & ~(np.isfinite(peak) & (peak >= 0))
        if bad.any():
            raise self._wrong(f"peaks gave {peak[bad][0]} for {np.count_nonzero(bad)} of {here.sum()} machines")
        held = np.where(here, np.minimum(np.where(here, peak, 0), total), 0)
        return Peaks(held, found.terms, found.cold_share, found.inputs)

    def _asked(self, what: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except SlackwaterError:
            raise
        except Exception as error:
            raise self._wrong(f"{what} raised {type(error).__name__}: {error}"[:_LONGEST]) from error

    def _wrong(self, what: str) -> Misconfigured:
        return Misconfigured(f"{self._who}: {what}; mend it, or name the models that are wanted without it")
