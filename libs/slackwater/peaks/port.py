"""Interface of the peak models: inputs and outputs for one resource, with the whole fleet in one call.

The caller (service, backtest or benchmark) numbers machines, series and workloads densely from 0 and passes the
placement. A model stores what it learned by those row ids, so they must mean the same in every call. A call may cover
some of the machines only: a member absent from it was not measured, which differs from being idle. Amounts are
milli-cores or bytes; times are seconds since 1970 of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

HORIZON_SECONDS = 86_400.0
"""How far ahead a peak is predicted."""


@record(frozen=True, slots=True)
class Members:
    """The members on each machine at one time, ordered by machine (`machine` never decreases), for one resource.

    Where usage is known only for whole machines, each machine is its own single member.
    """

    machine: Rows
    """(m,) 0..len(capacity)-1."""
    series: Rows
    """(m,) the pod's own series: a new row id for each placement of a pod."""
    workload: Rows
    """(m,) the series of its workload: it survives moves and restarts, and members may share it."""
    limit: Floats
    """(m,) the maximum usage (in the traces: the reservation); may be 0."""
    capacity: Floats
    """(machines,); may be 0."""
    kind: Rows | None = None
    """(m,) a number for each member's class, by tier and QoS; None if no model uses it (see `ByClass`)."""


@record(frozen=True, slots=True)
class Peaks:
    """The predicted peak of each machine over the next `HORIZON_SECONDS`."""

    peak: Floats
    """(machines,) never above the sum of its members' limits."""
    terms: Mapping[str, Floats]
    """Each (machines,); they add up to the peak before it is cut to the limit."""
    cold_share: Floats
    """(machines,) ratio of members that the model does not know yet, 0..1; 0 for a machine without members."""
    inputs: Mapping[str, Floats] = field(default_factory=dict)
    """Each (machines,): inputs of the terms, so that these can be computed again; may be empty."""


@record(frozen=True, slots=True)
class ModelCalibration:
    """Calibration of a model against its stated rate. Rates are ratios (0..1)."""

    knob: float | None = None
    """The insured part of the risk in force for machines without young workloads; None for models without a knob."""
    stated_rate: float | None = None
    """The accepted ratio of 24 h windows above the peak; None if a margin is configured instead."""
    measured_rate: float | None = None
    """The measured ratio of finished windows above the peak; None before the first one has finished."""
    machine_days: float = 0.0
    """Finished windows, in days of one machine."""


class PeakModel(Protocol):
    """A model of one resource. Its answers depend only on what was folded, in the order of folding."""

    name: str
    version: str

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        """Folds `usage` (m,): each member's usage in the window that ends at `at_seconds`."""
        ...

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        """Returns the peaks of the given members, whether or not they were there before."""
        ...


class KeptModel(PeakModel, Protocol):
    """A model whose state can be saved, restored and pruned, as a service needs.

    Equal states give equal answers, to the last bit, now and after equal further folds.
    """

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns a copy of everything learned, as plain arrays by name."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Replaces the state. Raises InvalidInput (`model_state_unusable`) if it does not fit."""
        ...

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        """Deletes all data of these row ids, so that they can be reused."""
        ...


@runtime_checkable
class Calibrated(Protocol):
    """A model that measures the results of its predictions. Optional."""

    def standing(self) -> ModelCalibration: ...


@runtime_checkable
class RolloutAware(Protocol):
    """A model that accepts announcements of workloads being deployed, scaled or reconfigured. Optional."""

    def announce(self, at_seconds: float, workloads: Rows) -> None:
        """Lowers the weight of these workloads' history from now on, for as long as the model's settings say."""
        ...

    def changing(self, at_seconds: float, workloads: Rows) -> NDArray[np.bool_]:
        """Returns (n,) which workloads were announced recently."""
        ...


@runtime_checkable
class ReportsProblems(Protocol):
    """A model that may fail to answer. Optional."""

    @property
    def problem(self) -> str:
        """Returns what the model could not do in its last calls; empty if it did everything."""
        ...


@runtime_checkable
class ByClass(Protocol):
    """A model that may use the class of members. Optional."""

    @property
    def by_class(self) -> bool: ...

    def prior(self, kind: int) -> tuple[float, int]:
        """Returns the ratio of its limit that an unknown workload of this class counts with, and the number of
        workloads that this ratio is based on.
        """
        ...
