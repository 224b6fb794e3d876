"""Sandbox for models of other distributions: their errors and invalid answers affect no other prediction.

Where a model does not answer, or answers with an amount outside 0 to the limits, the limits are used: nothing is lent
there and the problem is reported. A model that missed a window lends nothing until it has folded the next one. A model
that failed to forget is rebuilt, because the row ids it still knows are reused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.peaks.borg_default import BorgDefault
from slackwater.peaks.fleet import MachineMembers, machine_members
from slackwater.peaks.port import (
    ByClass,
    Calibrated,
    Floats,
    KeptModel,
    Members,
    ModelCalibration,
    Peaks,
    RolloutAware,
    Rows,
)
from slackwater.peaks.tables import State

_BEHIND, _LOST = "contained.behind", "contained.lost"
_LIMITS, _UNEXPLAINED = "cold_start_limits", "unexplained"
_NEAR = 1e-6
"""Tolerance between the sum of the terms and the peak, as a ratio of the peak or in units."""
_LONGEST = 300
T = TypeVar("T")


class SandboxedModel:
    """Wraps a model so that its failures stay local to it."""

    def __init__(self, make: Callable[[], KeptModel]) -> None:
        self._make = make
        self._model = make()
        self.name, self.version = self._model.name, self._model.version
        self._is_behind = False
        self._wrong: dict[str, str] = {}
        self._wrong_at = 0.0

    @property
    def problem(self) -> str:
        """Returns what the model could not do in its last calls; empty if it did everything."""
        return "; ".join(f"{what} {why}" for what, why in self._wrong.items())

    def _asked(self, what: str, function: Callable[[], T]) -> T | None:
        """Returns the function's result; None if it raises."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - code of other distributions may raise anything
            self._wrong[what] = f"raised {type(error).__name__}: {error}"[:_LONGEST]
            return None
        self._wrong.pop(what, None)
        return result

    def _did(self, what: str, function: Callable[[], object]) -> bool:
        self._asked(what, function)
        return what not in self._wrong

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        self._is_behind = not self._did("fold", lambda: self._model.fold(at_seconds, members, usage))

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        before = self._wrong.get("peaks") if at_seconds == self._wrong_at else None
        fleet = machine_members(members)
        answer = None if self._is_behind else self._asked("peaks", lambda: self._model.peaks(at_seconds, members))
        if answer is None and not self._is_behind:
            self._wrong.setdefault("peaks", "gave None")
        peaks, why = _within(answer, fleet)
        if why and answer is not None:
            self._wrong["peaks"] = why
        if before is not None:  # same time: groups and single members are predicted in separate calls
            self._wrong.setdefault("peaks", before)
        self._wrong_at = at_seconds
        return peaks

    def standing(self) -> ModelCalibration:
        model = self._model
        standing = self._asked("standing", model.standing) if isinstance(model, Calibrated) else None
        if not isinstance(standing, ModelCalibration):
            return ModelCalibration()
        numbers = (standing.knob, standing.stated_rate, standing.measured_rate, standing.machine_days)
        return standing if all(number is None or _is_amount(number) for number in numbers) else ModelCalibration()

    @property
    def by_class(self) -> bool:
        model = self._model
        return self._asked("by_class", lambda: isinstance(model, ByClass) and model.by_class) is True

    def prior(self, kind: int) -> tuple[float, int]:
        """Returns the prior of a class, or (1.0, 0) if the model has no valid one, so that the limit is used."""
        model = self._model
        prior = self._asked("prior", lambda: model.prior(kind)) if isinstance(model, ByClass) else None
        is_valid = isinstance(prior, tuple) and len(prior) == 2 and all(map(_is_amount, prior))
        return prior if prior is not None and is_valid and prior[0] <= 1 else (1.0, 0)

    def announce(self, at_seconds: float, workloads: Rows) -> None:
        model = self._model
        if isinstance(model, RolloutAware):
            self._did("announce", lambda: model.announce(at_seconds, workloads))

    def changing(self, at_seconds: float, workloads: Rows) -> NDArray[np.bool_]:
        model, flags = self._model, None
        if isinstance(model, RolloutAware):
            flags = self._asked("changing", lambda: model.changing(at_seconds, workloads))
        is_valid = isinstance(flags, np.ndarray) and flags.shape == workloads.shape and flags.dtype == np.bool_
        return flags if flags is not None and is_valid else np.zeros(len(workloads), dtype=bool)

    def state(self) -> State:
        """Returns the state. A state that cannot be read is marked as lost, and the model is rebuilt at restore."""
        arrays = self._asked("state", lambda: {name: _plain(array) for name, array in self._model.state().items()})
        return {_LOST: np.ones(1)} if arrays is None else {**arrays, _BEHIND: np.array([self._is_behind])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        own = {name: array for name, array in state.items() if name not in (_BEHIND, _LOST)}
        try:
            if _LOST in state:
                raise InvalidInput(
                    f"model {self.name}: its state could not be stored; the model is rebuilt",
                    code="model_state_unusable",
                )
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
    """Returns a copy in plain types."""
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        raise TypeError(f"a state must hold plain NumPy arrays, not {type(array).__name__}")
    return array.copy()


def _within(answer: object, fleet: MachineMembers) -> tuple[Peaks, str]:
    """Returns the answer where it is valid and the limits elsewhere, and what was wrong; empty if nothing was."""
    total = fleet.everywhere(fleet.total)
    here = np.zeros(len(total), dtype=bool)
    here[fleet.machines] = True
    peak = _column(getattr(answer, "peak", None), total)
    if not isinstance(answer, Peaks) or peak is None:
        return Peaks(
            total, {_LIMITS: total}, here.astype(np.float64)
        ), f"returned no peak for each machine: {answer!r}"[:99]
    is_valid = np.isfinite(peak) & (peak >= 0)
    peak = np.where(here, np.where(is_valid, np.minimum(peak, total), total), 0.0)
    terms = _columns(answer.terms, total)
    added = np.minimum(sum(terms.values(), np.zeros(len(total))), total)
    explained = np.abs(added - peak) <= np.maximum(peak, 1.0) * _NEAR
    cold = _column(answer.cold_share, total)
    cold = np.ones(len(total)) if cold is None else np.where(np.isfinite(cold), np.clip(cold, 0.0, 1.0), 1.0)
    bad, odd = here & ~is_valid, here & is_valid & ~explained
    cold = np.where(here, np.where(bad, 1.0, cold), 0.0)
    if not (bad | odd).any():
        return Peaks(peak, terms, cold, _columns(answer.inputs, total)), ""
    terms = {name: np.where(here & ~bad & ~odd, values, 0.0) for name, values in terms.items()}
    terms |= {_LIMITS: terms.get(_LIMITS, 0.0) + np.where(bad, total, 0.0), _UNEXPLAINED: np.where(odd, peak, 0.0)}
    what = "is not an amount" if bad.any() else "is not the sum of its terms"
    return Peaks(
        peak, terms, cold
    ), f"returned a peak that {what} on {np.count_nonzero(bad | odd)} of {here.sum()} machines"


def _column(values: object, like: Floats) -> Floats | None:
    """Returns one number for each machine; None if `values` is anything else."""
    is_valid = isinstance(values, np.ndarray) and values.shape == like.shape and values.dtype.kind in "fiu"
    return np.asarray(values, dtype=np.float64) if is_valid else None


def _columns(answer: object, like: Floats) -> dict[str, Floats]:
    """Returns the valid columns, all of finite numbers."""
    columns = (
        {str(name): _column(values, like) for name, values in answer.items()} if isinstance(answer, Mapping) else {}
    )
    return {name: column for name, column in columns.items() if column is not None and np.isfinite(column).all()}
