"""workload-profile: the combined usage that the present pods would have reached, plus an insured part of the risk.

    B  largest hour of the past two weeks of the sum of the workloads' hourly maxima       (peaks seen together)
    S  sum of each workload's own largest hour                                             (all peaks at once)
    L  sum of the limits                                                                   (all at their limit)
    R  = ((S - B) + novelty x (L - S) + noise x B) x size                                  (risk)
    P  = min(L, B + k R)                       0 <= B <= S <= L, and one knob k

History belongs to the workload, so a pod that was moved or replaced is known at once. Unknown usage is covered in two
ways. A workload seen for fewer than `cold_hours` hours counts with its limit in B and S; or, by `cold_start`, with its
class prior (see `priors`), and then as young. Where pods use more than their workload ever did (a wrong key, a new
release), the excess is added to B and S: the live gap, which is exactly 0 while keys are right. A workload younger than
`young_hours` raises the knob of its machine towards `young_knob` by its part of the limits. One that was deployed,
scaled or reconfigured does so towards `rollout_knob` for `rollout_hours`, and that increase is a term of its own:

    P  = min(L, B + (k + rollout) R)

The knob is configured, or follows from a stated rate of violations and the ledger of earlier predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.peaks.calibration import CalibrationLedger, LedgerOptions, Record
from slackwater.peaks.fleet import MachineMembers, machine_members, measured
from slackwater.peaks.port import Floats, Members, ModelCalibration, Peaks, Rows
from slackwater.peaks.priors import ClassPriors
from slackwater.peaks.profiles import HOUR, DailyPeaks, Profiles
from slackwater.peaks.tables import SeriesColumn, State, Table, named, part_of

REQUEST, CLASS_PRIOR = "request", "class-prior"
"""Substitutes for an unknown workload."""


@record(frozen=True, slots=True)
class ProfileOptions:
    """`knob` 0.20 is balanced, 0.30 safe; with `violation_rate` (0..1) the ledger sets the knob."""

    knob: float = 0.30
    violation_rate: float | None = None
    history_hours: int = 336
    live_days: int = 14
    cold_hours: int = 24
    cold_start: str = REQUEST
    prior_quantile: float = 0.95
    prior_workloads: int = 50
    young_hours: int = 168
    young_knob: float = 0.30
    young_extra: float = 0.15
    rollout_hours: float = 24.0
    rollout_knob: float = 1.0
    novelty: float = 0.05
    noise: float = 0.10
    size_reference: float = 20.0
    size_power: float = 0.5
    size_most: float = 4.5
    ledger_after_hours: int = 168
    ledger: LedgerOptions = field(default_factory=LedgerOptions)


@record(frozen=True, slots=True)
class Bounds:
    """The inputs of a peak, by machine present; `cold` by member."""

    seen_together: Floats
    own_peaks: Floats
    limits: Floats
    size: Floats
    live_gap: Floats
    young_share: Floats
    rollout_share: Floats
    """Ratio of the limits that belongs to changing workloads; `young_rollout_share` is the young part of it."""
    young_rollout_share: Floats
    known_share: Floats
    stand_in: Floats
    """The amounts that unknown members count with; `unknown` are their limits."""
    unknown: Floats
    cold: NDArray[np.bool_]


class WorkloadProfile:
    """The default model; see the module's docstring."""

    name = "workload-profile"
    version = "1"

    def __init__(self, options: ProfileOptions) -> None:
        self.options = options
        self.profiles = Profiles(options.history_hours)
        self.live = DailyPeaks(options.live_days)
        self.ledger = CalibrationLedger(options.ledger)
        self.announced = Table({"until": SeriesColumn(np.float64)})
        self.priors = ClassPriors(options.prior_quantile, options.prior_workloads)

    @property
    def by_class(self) -> bool:
        return self.options.cold_start == CLASS_PRIOR

    def prior(self, kind: int) -> tuple[float, int]:
        return self.priors.of(kind)

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        fleet, used = measured(members, usage)
        if not len(used):
            return
        in_time = self.ledger.turn(at_seconds)
        lacking = self.ledger.lacking(fleet) if in_time else np.zeros(len(fleet.machines), dtype=bool)
        if lacking.any():  # before the window is folded, because a prediction must not contain its own outcome
            self.ledger.write(fleet, lacking, self._record(at_seconds, fleet))
        if in_time:
            self.ledger.watch(fleet, used, lacking)
        if self.by_class:
            self.priors.learn(at_seconds, self.profiles, max(self.options.cold_hours, self.options.young_hours))
            self.priors.fold(at_seconds, fleet.members, fleet.limit)
        self.profiles.fold(at_seconds, fleet.members.workload, used, fleet.limit)
        self.live.fold(at_seconds, fleet.members.series, used)

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        fleet = machine_members(members)
        bounds = self.bounds(at_seconds, fleet)
        knobs, more = self.knobs(bounds), self.rollout(bounds)
        inputs = {
            "seen_together": bounds.seen_together,
            "own_peaks": bounds.own_peaks,
            "limits": bounds.limits,
            "insured": knobs * bounds.size,
            "novelty": np.full_like(knobs, self.options.novelty),
            "noise": np.full_like(knobs, self.options.noise),
            "knob": knobs,
            "live_gap": bounds.live_gap,
            "young_share": bounds.young_share,
            "rollout": more * bounds.size,
            "rollout_share": bounds.rollout_share,
            "cold_stand_in": bounds.stand_in,
            "cold_limits": bounds.unknown,
        }
        terms = self.terms(bounds, knobs)
        return fleet.answer({**terms, "rollout": self._risk(bounds, more)}, bounds.cold, inputs)

    def bounds(self, at_seconds: float, fleet: MachineMembers) -> Bounds:
        """Returns B, S and L with their additions, and the inputs of the knob."""
        options, workload, limit = self.options, fleet.members.workload, fleet.limit
        hours = self.profiles.hours(workload)
        cold = hours < max(options.cold_hours, 1)
        own = self.profiles.own(workload)
        gap = np.where(cold, 0.0, np.maximum(self.live.own(fleet.members.series) - own, 0.0))
        stand_in = np.where(cold, self._stand_in(fleet, own), 0.0)
        most = np.where(cold, stand_in, np.minimum(own + gap, limit))
        own_peaks = np.minimum(fleet.sums(most), fleet.total)
        together = self.profiles.together(workload, ~cold, fleet.starts) + fleet.sums(np.where(cold, stand_in, gap))
        guessed = cold & (stand_in < limit)
        young = np.where(guessed | (~cold & (hours < options.young_hours)), limit, 0.0)
        changing = ~cold & self.changing(at_seconds, workload)
        return Bounds(
            seen_together=np.minimum(together, own_peaks),
            own_peaks=own_peaks,
            limits=fleet.total,
            size=self.size(fleet),
            live_gap=fleet.sums(gap),
            young_share=_share(fleet.sums(young), fleet.total),
            rollout_share=_share(fleet.sums(np.where(changing, limit, 0.0)), fleet.total),
            young_rollout_share=_share(fleet.sums(np.where(changing, young, 0.0)), fleet.total),
            known_share=_share(fleet.sums(np.where(cold, 0.0, limit * self._matured(hours))), fleet.total),
            stand_in=fleet.sums(stand_in),
            unknown=fleet.sums(np.where(cold, limit, 0.0)),
            cold=cold,
        )

    def _stand_in(self, fleet: MachineMembers, own: Floats) -> Floats:
        """Returns (m,) the amount that each member counts with while it is unknown."""
        if not self.by_class:
            return fleet.limit
        seen = np.maximum(own, self.live.own(fleet.members.series))
        return np.asarray(np.minimum(np.maximum(self.priors.share(fleet.members) * fleet.limit, seen), fleet.limit))

    def terms(self, bounds: Bounds, knobs: Floats) -> dict[str, Floats]:
        """Returns the four parts of a peak, by machine present."""
        together, own_peaks, limits = bounds.seen_together, bounds.own_peaks, bounds.limits
        return four_terms(together, own_peaks, limits, knobs * bounds.size, self.options.novelty, self.options.noise)

    def standing(self) -> ModelCalibration:
        days, share = self.ledger.coverage()
        return ModelCalibration(self.knob(), self.options.violation_rate, share if days > 0 else None, days)

    def knob(self) -> float:
        """Returns the knob of a machine without young workloads."""
        rate = self.options.violation_rate
        return self.options.knob if rate is None else self.ledger.knob(rate)

    def knobs(self, bounds: Bounds) -> Floats:
        """Returns the knob in force by machine present, without the increase by rollouts."""
        return self.knob() + self._for_young() * bounds.young_share

    def rollout(self, bounds: Bounds) -> Floats:
        """Returns the increase of the knob by rollouts, by machine present; young and changing workloads raise it
        once.
        """
        young = self._for_young()
        most = max(self.options.rollout_knob - self.knob(), young)
        return most * bounds.rollout_share - young * bounds.young_rollout_share

    def _for_young(self) -> float:
        """Returns the increase where all workloads are young. A knob from measurements adds `young_extra`, because it
        is measured on few young machines.
        """
        options = self.options
        extra = 0.0 if options.violation_rate is None else options.young_extra
        return max(options.young_knob - self.knob(), 0.0) + extra

    def size(self, fleet: MachineMembers) -> Floats:
        """Returns the size factor: sqrt(reference / number of members), between 1 / most and most, because small sets
        are riskier.

        Counts the members with a limit above 0. An effective number by the squares of limits was measured: it predicts
        the risk of a set no better, and it moves the knob where sizes differ.
        """
        number = np.maximum(fleet.sums((fleet.limit > 0).astype(np.float64)), 1.0)
        factor = (self.options.size_reference / number) ** self.options.size_power
        return np.clip(factor, 1 / self.options.size_most, self.options.size_most)

    def announce(self, at_seconds: float, workloads: Rows) -> None:
        """Records a deployment, scaling or reconfiguration: for `rollout_hours` these workloads' history counts
        less.
        """
        if not self.options.rollout_hours:
            return
        self.announced.reach(workloads)
        until = self.announced["until"]
        until[workloads] = np.maximum(until[workloads], at_seconds + self.options.rollout_hours * HOUR)

    def changing(self, at_seconds: float, workloads: Rows) -> NDArray[np.bool_]:
        if not self.options.rollout_hours:
            return np.zeros(len(workloads), dtype=bool)
        self.announced.see(workloads)
        return np.asarray(self.announced["until"][workloads] > at_seconds)

    def merge(self, other: WorkloadProfile) -> None:
        """Adds the samples of another model for the same workloads. Pods and ledger stay with their machines."""
        self.profiles.merge(other.profiles)

    def state(self) -> State:
        parts = {
            "profiles": self.profiles.state(),
            "live": self.live.state(),
            "ledger": self.ledger.state(),
            "announced": self.announced.state(),
            "priors": self.priors.state(),
        }
        return {name: array for part, arrays in parts.items() for name, array in named(part, arrays).items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.profiles.restore(part_of(state, "profiles"))
        self.live.restore(part_of(state, "live"))
        self.ledger.restore(part_of(state, "ledger"))
        self.announced.restore(part_of(state, "announced"))
        self.priors.restore(part_of(state, "priors"))

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        self.profiles.forget(workloads)
        self.announced.forget(workloads)
        self.priors.forget(workloads)
        self.live.forget(series)
        self.ledger.forget(machines, series)

    def _record(self, at_seconds: float, fleet: MachineMembers) -> Record:
        bounds = self.bounds(at_seconds, fleet)
        knobs = self.knobs(bounds) + self.rollout(bounds)
        return Record(bounds.seen_together, self._risk(bounds, np.ones(1)), knobs, bounds.known_share)

    def _risk(self, bounds: Bounds, knobs: Floats) -> Floats:
        """Returns k R, by machine present."""
        return insured_risk(self.terms(bounds, knobs))

    def _matured(self, hours: Rows) -> Floats:
        """Returns 0..1: how well a workload is known, as a weight in the ledger. Half of the hours give an eighth."""
        return np.minimum(hours / self.options.ledger_after_hours, 1.0) ** 3


def four_terms(
    together: Floats, own_peaks: Floats, limits: Floats, insured: Floats, novelty: float, noise: float
) -> dict[str, Floats]:
    """Returns B and the three parts of k R, from B, S, L and k x size; see the module's docstring."""
    return {
        "seen_together": together,
        "coincidence": insured * (own_peaks - together),
        "novelty": insured * novelty * (limits - own_peaks),
        "noise": insured * noise * together,
    }


def insured_risk(terms: Mapping[str, Floats]) -> Floats:
    """Returns k R: the sum of the terms except B."""
    return np.asarray(terms["coincidence"] + terms["novelty"] + terms["noise"])


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
