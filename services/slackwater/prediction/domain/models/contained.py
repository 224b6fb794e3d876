"""Models of other distributions, kept within bounds: what they raise or make up stops nobody else's prediction.

Where a model cannot answer, or not with an amount between nothing and the limits, the limits stand in: nothing is lent
there, and why is told. One that missed a window lends nothing until it has taken the next; one that could not forget
begins anew, for the numbers that it still knows are given to others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.models.borg_default import BorgDefault
from slackwater.prediction.domain.models.fleet import Fleet, fleet_of
from slackwater.prediction.domain.models.port import (
    ByClass,
    Calibrated,
    Floats,
    KeptModel,
    Listening,
    Members,
    Peaks,
    Rows,
    Standing,
)
from slackwater.prediction.domain.models.tables import State

_BEHIND, _LOST = "contained.behind", "contained.lost"
_LIMITS, _UNEXPLAINED = "cold_start_limits", "unexplained"
_NEAR = 1e-6
"""What terms may be beside their peak, as a share of it or in units."""
_LONGEST = 300
T = TypeVar("T")


class Contained:
    """The same model, whose functions fail for themselves alone."""

    def __init__(self, make: Callable[[], KeptModel]) -> None:
        self._make = make
        self._model = make()
        self.name, self.version = self._model.name, self._model.version
        self._is_behind = False
        self._wrong: dict[str, str] = {}
        self._wrong_at = 0.0

    @property
    def problem(self) -> str:
        """What it could not do when it was last asked; empty if it could do everything."""
        return "; ".join(f"{what} {why}" for what, why in self._wrong.items())

    def _asked(self, what: str, function: Callable[[], T]) -> T | None:
        """What it answers; None if it raises."""
        try:
            found = function()
        except Exception as error:  # noqa: BLE001 - whatever somebody else's code does, it is not known then
            self._wrong[what] = f"raised {type(error).__name__}: {error}"[:_LONGEST]
            return None
        self._wrong.pop(what, None)
        return found

    def _did(self, what: str, function: Callable[[], object]) -> bool:
        self._asked(what, function)
        return what not in self._wrong

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        self._is_behind = not self._did("fold", lambda: self._model.fold(at_seconds, members, usage))

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        before = self._wrong.get("peaks") if at_seconds == self._wrong_at else None
        fleet = fleet_of(members)
        answer = None if self._is_behind else self._asked("peaks", lambda: self._model.peaks(at_seconds, members))
        if answer is None and not self._is_behind:
            self._wrong.setdefault("peaks", "gave None")
        found, why = _within(answer, fleet)
        if why and answer is not None:
            self._wrong["peaks"] = why
        if before is not None:  # of the same moment: some were asked about together, and each one alone
            self._wrong.setdefault("peaks", before)
        self._wrong_at = at_seconds
        return found

    def standing(self) -> Standing:
        model = self._model
        found = self._asked("standing", model.standing) if isinstance(model, Calibrated) else None
        if not isinstance(found, Standing):
            return Standing()
        told = (found.knob, found.stated_rate, found.measured_rate, found.machine_days)
        return found if all(one is None or _is_amount(one) for one in told) else Standing()

    @property
    def by_class(self) -> bool:
        model = self._model
        return self._asked("by_class", lambda: isinstance(model, ByClass) and model.by_class) is True

    def prior(self, kind: int) -> tuple[float, int]:
        """Of a class of which it cannot tell: the limit stands in."""
        model = self._model
        found = self._asked("prior", lambda: model.prior(kind)) if isinstance(model, ByClass) else None
        is_told = isinstance(found, tuple) and len(found) == 2 and all(map(_is_amount, found))
        return found if found is not None and is_told and found[0] <= 1 else (1.0, 0)

    def announce(self, at_seconds: float, workloads: Rows) -> None:
        model = self._model
        if isinstance(model, Listening):
            self._did("announce", lambda: model.announce(at_seconds, workloads))

    def changing(self, at_seconds: float, workloads: Rows) -> NDArray[np.bool_]:
        model, found = self._model, None
        if isinstance(model, Listening):
            found = self._asked("changing", lambda: model.changing(at_seconds, workloads))
        is_told = isinstance(found, np.ndarray) and found.shape == workloads.shape and found.dtype == np.bool_
        return found if found is not None and is_told else np.zeros(len(workloads), dtype=bool)

    def state(self) -> State:
        """One that cannot be told is restored by nobody: the model begins anew then."""
        found = self._asked("state", lambda: {name: _plain(array) for name, array in self._model.state().items()})
        return {_LOST: np.ones(1)} if found is None else {**found, _BEHIND: np.array([self._is_behind])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        own = {name: array for name, array in state.items() if name not in (_BEHIND, _LOST)}
        try:
            if _LOST in state:
                raise InvalidInput(f"model {self.name}: its state could not be kept", code="model_state_unusable")
            self._model.restore(own)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(
                f"model {self.name}: restore raised {type(error).__name__}: {error}"[:_LONGEST],
                code="model_state_unusable",
            ) from error
        self._is_behind = bool(np.any(state.get(_BEHIND, False)))

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        if not self._did("forget", lambda: self._model.forget(machines, series, workloads)):
            made = self._asked("constructor", self._make)
            self._model = BorgDefault(1.0) if made is None else made


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < np.inf


def _plain(array: Any) -> NDArray[Any]:
    """A copy, as bytes can hold it."""
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise TypeError(f"a state is made of plain arrays, not of {type(array).__name__}")
    return array.copy()


def _within(answer: object, fleet: Fleet) -> tuple[Peaks, str]:
    """What it says where that can be, the limits elsewhere; and what was wrong, empty if nothing was."""
    total = fleet.everywhere(fleet.total)
    here = np.zeros(len(total), dtype=bool)
    here[fleet.machines] = True
    peak = _column(getattr(answer, "peak", None), total)
    if not isinstance(answer, Peaks) or peak is None:
        return Peaks(total, {_LIMITS: total}, here.astype(np.float64)), f"gave no peak of each machine: {answer!r}"[:99]
    known = np.isfinite(peak) & (peak >= 0)
    peak = np.where(here, np.where(known, np.minimum(peak, total), total), 0.0)
    terms = _columns(answer.terms, total)
    added = np.minimum(sum(terms.values(), np.zeros(len(total))), total)
    explained = np.abs(added - peak) <= np.maximum(peak, 1.0) * _NEAR
    cold = _column(answer.cold_share, total)
    cold = np.ones(len(total)) if cold is None else np.where(np.isfinite(cold), np.clip(cold, 0.0, 1.0), 1.0)
    bad, odd = here & ~known, here & known & ~explained
    cold = np.where(here, np.where(bad, 1.0, cold), 0.0)
    if not (bad | odd).any():
        return Peaks(peak, terms, cold, _columns(answer.inputs, total)), ""
    terms = {name: np.where(here & ~bad & ~odd, values, 0.0) for name, values in terms.items()}
    terms |= {_LIMITS: terms.get(_LIMITS, 0.0) + np.where(bad, total, 0.0), _UNEXPLAINED: np.where(odd, peak, 0.0)}
    what = "is no amount" if bad.any() else "is not the sum of its terms"
    return Peaks(
        peak, terms, cold
    ), f"gave a peak that {what} on {np.count_nonzero(bad | odd)} of {here.sum()} machines"


def _column(values: object, like: Floats) -> Floats | None:
    """One number of each machine; None if it is anything else."""
    is_told = isinstance(values, np.ndarray) and values.shape == like.shape and values.dtype.kind in "fiu"
    return np.asarray(values, dtype=np.float64) if is_told else None


def _columns(said: object, like: Floats) -> dict[str, Floats]:
    """Those that can be told, all of finite numbers."""
    found = {str(name): _column(values, like) for name, values in said.items()} if isinstance(said, Mapping) else {}
    return {name: one for name, one in found.items() if one is not None and np.isfinite(one).all()}
