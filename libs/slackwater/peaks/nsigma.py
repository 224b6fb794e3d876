"""N-sigma: mean plus N standard deviations, of the whole machine (v1) or also of each pod (v2).

v1 predicts the ratio of usage to the members' limits, so that it stays valid while pods come and go. The ratio applies
to known members; the others count with their limits. v2 takes the larger of v1 and of the sum over pods, each at most
its limit. Source: the EuroSys'21 paper and the field's node prediction proposal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.peaks.fleet import MachineMembers, machine_members, measured
from slackwater.peaks.moments import Moments
from slackwater.peaks.port import Floats, Members, Peaks, Rows
from slackwater.peaks.tables import State, named, part_of
from slackwater.peaks.warmup import Warmup


@record(frozen=True, slots=True)
class NSigma:
    """`sigmas` standard deviations above the mean of the last `blocks` blocks; warm after `warm_seconds` of samples."""

    sigmas: float = 5.0
    blocks: int = 20
    block_seconds: float = 1800.0
    warm_seconds: float = 7200.0


class NSigmaV1:
    """Machine level: (mean + N sigma of usage / limits) x limits of known members + limits of the others."""

    name = "nsigma-v1"
    version = "1"

    def __init__(self, settings: NSigma) -> None:
        self.settings = settings
        self.pods = Warmup()
        self.watched = Warmup()
        self.machines = Moments(settings.blocks, settings.block_seconds)

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        fleet, used = measured(members, usage)
        self.pods.fold(at_seconds, fleet.members.series)
        self.watched.fold(at_seconds, fleet.machines)
        share = np.divide(fleet.sums(used), fleet.total, out=np.zeros_like(fleet.total), where=fleet.total > 0)
        self.machines.fold(at_seconds, fleet.machines, share)

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        fleet = machine_members(members)
        count, mean, deviation = self.machines.over(fleet.machines)
        cold = self.cold(fleet, count)
        return fleet.answer(self.terms(fleet, cold, mean, deviation), cold)

    def cold(self, fleet: MachineMembers, count: Floats) -> NDArray[np.bool_]:
        """Returns (m,) which members are cold: the pod itself, or its machine. `count`: samples by machine present."""
        seconds = self.settings.warm_seconds
        known = self.watched.warm(fleet.machines, seconds) & (count > 0)
        return np.asarray(~self.pods.warm(fleet.members.series, seconds) | ~known[fleet.place()])

    def terms(
        self, fleet: MachineMembers, cold: NDArray[np.bool_], mean: Floats, deviation: Floats
    ) -> dict[str, Floats]:
        """Returns the terms by machine present, from the mean and deviation of its ratio of usage to limits."""
        stand_in = fleet.sums(np.where(cold, fleet.limit, 0.0))
        limits = fleet.sums(np.where(cold, 0.0, fleet.limit))
        return {
            "mean": mean * limits,
            "deviation": self.settings.sigmas * deviation * limits,
            "cold_start_limits": stand_in,
        }

    def state(self) -> State:
        parts = {"pods": self.pods.state(), "watched": self.watched.state(), "machines": self.machines.state()}
        return {name: array for part, arrays in parts.items() for name, array in named(part, arrays).items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.pods.restore(part_of(state, "pods"))
        self.watched.restore(part_of(state, "watched"))
        self.machines.restore(part_of(state, "machines"))

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        self.pods.forget(series)
        self.watched.forget(machines)
        self.machines.forget(machines)


class NSigmaV2(NSigmaV1):
    """The larger of v1 and the sum over pods of mean + N sigma, each at most its limit."""

    name = "nsigma-v2"

    def __init__(self, settings: NSigma) -> None:
        super().__init__(settings)
        self.each = Moments(settings.blocks, settings.block_seconds)

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        super().fold(at_seconds, members, usage)
        fleet, used = measured(members, usage)
        self.each.fold(at_seconds, fleet.members.series, used)

    def terms(
        self, fleet: MachineMembers, cold: NDArray[np.bool_], mean: Floats, deviation: Floats
    ) -> dict[str, Floats]:
        """Returns the terms of v1, and by how much the sum over pods exceeds them."""
        terms = super().terms(fleet, cold, mean, deviation)
        _, of_pods, deviation_of_pods = self.each.over(fleet.members.series)
        peak = np.minimum(of_pods + self.settings.sigmas * deviation_of_pods, fleet.limit)
        pods = fleet.sums(np.where(cold, fleet.limit, peak))
        return {**terms, "pods_above_machine": np.maximum(pods - sum(terms.values(), np.zeros(len(pods))), 0.0)}

    def state(self) -> State:
        return {**super().state(), **named("each", self.each.state())}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self.each.restore(part_of(state, "each"))

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        super().forget(machines, series, workloads)
        self.each.forget(series)
