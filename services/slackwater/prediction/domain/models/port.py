"""What a model of peaks is handed and what it answers, for one resource: the whole fleet in one call.

Whoever feeds a model (the service, the backtest, the bench) numbers machines, series and workloads densely from 0 and
says who is where; a model keeps what it has learned by those numbers, so they must mean the same in every call. A call
may be about some of the machines only: who has no member in it was not measured, which is not the same as idle.
Amounts are milli-cores or bytes; times are seconds since 1970 of the stream.
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
"""How far ahead a peak looks."""


@record(frozen=True, slots=True)
class Members:
    """Who is on which machine at one moment, ordered by machine (`machine` never decreases). One resource.

    Where usage of a whole machine is known but no pods are, each machine is its own one member.
    """

    machine: Rows
    """(m,) 0..len(capacity)-1."""
    series: Rows
    """(m,) the pod's own series: a new number each time a pod is placed anew."""
    workload: Rows
    """(m,) the series of its workload: survives moves and restarts; members may share one."""
    limit: Floats
    """(m,) the most it may use (in the traces: what it has reserved); may be 0."""
    capacity: Floats
    """(machines,); may be 0."""
    kind: Rows | None = None
    """(m,) a number of each one's class, by tier and QoS; None where nobody asked for it (see `ByClass`)."""


@record(frozen=True, slots=True)
class Peaks:
    """The predicted peak of each machine over the next `HORIZON_SECONDS`."""

    peak: Floats
    """(machines,) never above the sum of its members' limits."""
    terms: Mapping[str, Floats]
    """Each (machines,); they add up to the peak before it is cut to the limit."""
    cold_share: Floats
    """(machines,) share of members that the model does not know yet, 0..1; 0 for a machine without members."""
    inputs: Mapping[str, Floats] = field(default_factory=dict)
    """Each (machines,): what the terms were made of, for who wants to make them again; may be empty."""


@record(frozen=True, slots=True)
class Standing:
    """How a model stands to what it was asked for. Rates are ratios (0..1)."""

    knob: float | None = None
    """The insured part of the risk in force where nothing is young; None for models without one."""
    stated_rate: float | None = None
    """The accepted share of 24 h windows above the peak; None where a margin was chosen instead."""
    measured_rate: float | None = None
    """The share of finished windows that were; None while none is finished."""
    machine_days: float = 0.0
    """Finished windows, in days of one machine."""


class PeakModel(Protocol):
    """One model of one resource. A function of what was folded, in the order in which it was folded."""

    name: str
    version: str

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        """`usage` (m,): of each member in the window that ends at `at_seconds`."""
        ...

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        """The peaks of the set that is on the machines now, whether or not it was there before."""
        ...


class KeptModel(PeakModel, Protocol):
    """A model whose state can be saved, restored and tidied: what a service needs beside the predictions.

    Equal states answer equally to the last bit, and go on equally.
    """

    def state(self) -> dict[str, NDArray[Any]]:
        """A copy of everything learned, as plain arrays by name."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take a saved state in place of one's own. Raises InvalidInput (`model_state_unusable`) if it does not fit."""
        ...

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        """As if these had never been seen: after that, their numbers may be given to others."""
        ...


@runtime_checkable
class Calibrated(Protocol):
    """A model that keeps count of what came of its predictions. Others simply lack this."""

    def standing(self) -> Standing: ...


@runtime_checkable
class Listening(Protocol):
    """A model that is told which workloads are being deployed, scaled or configured. Others simply lack this."""

    def announce(self, at_seconds: float, workloads: Rows) -> None:
        """From now on the past says less about these, for as long as the model's settings say."""
        ...

    def changing(self, at_seconds: float, workloads: Rows) -> NDArray[np.bool_]:
        """(n,) about whom it was told so, not too long ago."""
        ...


@runtime_checkable
class Faltering(Protocol):
    """A model that may be unable to do what it is asked. Others simply lack this."""

    @property
    def problem(self) -> str:
        """What it could not do when it was last asked; empty if it could do everything."""
        ...


@runtime_checkable
class ByClass(Protocol):
    """A model that may want to be told of which class members are. Others simply lack this."""

    @property
    def by_class(self) -> bool: ...

    def prior(self, kind: int) -> tuple[float, int]:
        """Of a class: the share of its limit that a workload counts with while it is not known, and how many workloads
        say so."""
        ...
