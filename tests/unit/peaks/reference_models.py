"""Every model in plain Python, slow and readable: it keeps all samples and computes each answer from the beginning.

A row is (machine, series, workload, limit, usage); usage that is not a number was not measured.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean, pstdev
from typing import NamedTuple

from reference_histogram import ReferenceHistogram

from slackwater.peaks.buckets import Buckets
from slackwater.peaks.decaying_histograms import DecayingOptions
from slackwater.peaks.histogram import EPSILON
from slackwater.peaks.nsigma import NSigma
from slackwater.peaks.resource_central import STEPS, ResourceCentralOptions
from slackwater.peaks.workload_profile import ProfileOptions


class Row(NamedTuple):
    machine: int
    series: int
    workload: int
    limit: float
    usage: float


class Sample(NamedTuple):
    at: float
    row: Row
    fold: int
    """Which call it came with: a window may come twice, each time with other pods measured."""


def block_of(at: float, seconds: float) -> int:
    return math.ceil(at / seconds) - 1


def by_machine(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[row.machine].append(row)
    return found


class Reference:
    """What all have in common: the samples, measured and between 0 and the limit, in the order they came."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.folds = 0

    def fold(self, at: float, rows: Sequence[Row]) -> None:
        self.folds += 1
        for row in rows:
            if not math.isnan(row.usage):
                usage = min(max(row.usage, 0.0), row.limit)
                self.samples.append(Sample(at, row._replace(usage=usage), self.folds))

    def newest(self, seconds: float) -> int:
        return max((block_of(sample.at, seconds) for sample in self.samples), default=0)

    def window(self, seconds: float, blocks: int) -> list[Sample]:
        """Samples of the newest blocks."""
        after = self.newest(seconds) - blocks
        return [sample for sample in self.samples if block_of(sample.at, seconds) > after]

    def warm(self, whose: Callable[[Row], bool], needed: float) -> bool:
        """Counted in slots of five minutes, each later than the one before."""
        slots, last = 0, -math.inf
        for sample in self.samples:
            slot = block_of(sample.at, 300)
            if whose(sample.row) and slot > last:
                slots, last = slots + 1, slot
        return slots > 0 and slots * 300 >= needed

    def sums(self, samples: Sequence[Sample], machine: int) -> list[tuple[float, float, float]]:
        """(time, sum of usage, sum of limits) of a machine in each fold."""
        folds: dict[int, list[Sample]] = defaultdict(list)
        for sample in samples:
            if sample.row.machine == machine:
                folds[sample.fold].append(sample)
        return [
            (together[0].at, sum(s.row.usage for s in together), sum(s.row.limit for s in together))
            for together in folds.values()
        ]

    def peaks(self, at: float, rows: Sequence[Row]) -> dict[int, float]:
        found = {}
        for machine, members in by_machine(rows).items():
            total = sum(member.limit for member in members)
            found[machine] = min(total, self.peak(at, machine, members))
        return found

    def peak(self, at: float, machine: int, members: Sequence[Row]) -> float:
        raise NotImplementedError


class ReferenceBorg(Reference):
    def peak(self, at: float, machine: int, members: Sequence[Row]) -> float:
        return sum(member.limit for member in members) / 1.1


class ReferenceNSigma(Reference):
    def __init__(self, settings: NSigma, pods: bool) -> None:
        super().__init__()
        self.settings = settings
        self.pods = pods

    def peak(self, at: float, machine: int, members: Sequence[Row]) -> float:
        settings = self.settings
        recent = self.window(settings.block_seconds, settings.blocks)
        shares = [used / limit if limit else 0.0 for _, used, limit in self.sums(recent, machine)]
        known = bool(shares) and self.warm(lambda row: row.machine == machine, settings.warm_seconds)
        machine_level = pod_level = 0.0
        for member in members:
            mine = self.warm(lambda row: row.series == member.series, settings.warm_seconds)  # noqa: B023 - called now
            if not (known and mine):
                machine_level += member.limit
                pod_level += member.limit
                continue
            machine_level += (fmean(shares) + settings.sigmas * pstdev(shares)) * member.limit
            own = [sample.row.usage for sample in recent if sample.row.series == member.series]
            if own:
                pod_level += min(member.limit, fmean(own) + settings.sigmas * pstdev(own))
        return max(machine_level, pod_level) if self.pods else machine_level


class ReferenceCentral(Reference):
    def __init__(self, options: ResourceCentralOptions) -> None:
        super().__init__()
        self.options = options

    def peak(self, at: float, machine: int, members: Sequence[Row]) -> float:
        options, peak = self.options, 0.0
        for member in members:
            slots: dict[int, float] = defaultdict(float)
            for when, row, _ in self.window(options.slot_seconds, options.slots):
                if row.series == member.series:
                    slot = block_of(when, options.slot_seconds)
                    slots[slot] = max(slots[slot], row.usage / row.limit if row.limit else 0.0)
            warm = self.warm(lambda row: row.series == member.series, options.warm_seconds)  # noqa: B023 - called now
            if not warm or not slots:
                peak += member.limit
                continue
            rank = max(1, math.ceil(options.percentile * len(slots) - 1e-9))
            peak += math.ceil(sorted(slots.values())[rank - 1] * STEPS) / STEPS * member.limit
        return peak


class ReferenceDecaying(Reference):
    """`nudge` moves the percentile by that much: a weight that is reached exactly may fall on either side."""

    def __init__(self, options: DecayingOptions, buckets: Buckets, nudge: float = 0.0) -> None:
        super().__init__()
        self.options, self.buckets = options, buckets
        self.share = min(1.0, max(0.0, options.percentile + nudge))

    def _percentile(self, samples: Sequence[tuple[float, float]]) -> float:
        import numpy as np

        histogram = ReferenceHistogram(self.buckets, self.options.half_life_seconds, EPSILON)
        for at, value in samples:
            histogram.add(int(self.buckets.find(np.array([value]))[0]), at)
        return histogram.percentile(self.share)

    def peak(self, at: float, machine: int, members: Sequence[Row]) -> float:
        options, pods = self.options, 0.0
        for member in members:
            if not self.warm(lambda row: row.series == member.series, options.warm_seconds):  # noqa: B023 - called now
                pods += member.limit
                continue
            own = [(when, row.usage) for when, row, _ in self.samples if row.series == member.series]
            pods += min(member.limit, self._percentile(own) * (1 + options.margin))
        together = 0.0
        if self.warm(lambda row: row.machine == machine, options.warm_seconds):
            sums = self.sums(self.samples, machine)
            together = self._percentile([(when, used) for when, used, _ in sums])
        return max(pods, together * (1 + options.margin))


class Known(NamedTuple):
    """B, S, L, size, and the shares of limits that are young, that change, and that do both."""

    together: float
    own: float
    limits: float
    size: float
    young: float
    changing: float
    both: float


class ReferenceProfile(Reference):
    def __init__(self, options: ProfileOptions) -> None:
        super().__init__()
        self.options = options
        self.announced: dict[int, float] = {}
        self.share = 1.0
        self.hour = -math.inf

    def fold(self, at: float, rows: Sequence[Row]) -> None:
        """All are of one class, whose share is looked at when an hour begins: before the window counts."""
        if at // 3600 > self.hour and any(not math.isnan(row.usage) for row in rows):
            self.hour = at // 3600
            self.share = self._share_of_the_class()
        super().fold(at, rows)

    def _share_of_the_class(self) -> float:
        options, needed = self.options, []
        for workload in {sample.row.workload for sample in self.samples}:
            mine = [sample for sample in self.samples if sample.row.workload == workload]
            limit = max(sample.row.limit for sample in mine if sample.fold == mine[-1].fold)
            hours = self.hours(workload)
            if len(hours) >= max(options.cold_hours, options.young_hours) and limit > 0:
                needed.append(min(max(hours.values()) / limit, 1.0))
        if len(needed) < options.prior_workloads:
            return 1.0
        return sorted(needed)[math.ceil(options.prior_quantile * (len(needed) - 1))]

    def stand_in(self, member: Row) -> float:
        if self.options.cold_start == "request":
            return member.limit
        seen = max(max(self.hours(member.workload).values(), default=0.0), self.live(member.series))
        return min(max(self.share * member.limit, seen), member.limit)

    def unit(self, workload: int) -> float:
        largest = max((row.limit for _, row, _ in self.samples if row.workload == workload), default=0.0)
        unit = 2.0**-10
        while largest > unit * 65535:
            unit *= 2
        return unit

    def hours(self, workload: int) -> dict[int, float]:
        """Largest amount by hour, rounded up to whole units."""
        unit, found = self.unit(workload), {}
        for at, row, _ in self.window(3600, self.options.history_hours + 1):
            if row.workload == workload:
                hour = block_of(at, 3600)
                found[hour] = max(found.get(hour, unit), math.ceil(row.usage / unit) * unit)
        return found

    def live(self, series: int) -> float:
        own = [s.row.usage for s in self.window(86400, self.options.live_days) if s.row.series == series]
        return max(map(single, own), default=0.0)

    def known(self, at: float, members: Sequence[Row]) -> Known:
        options = self.options
        together: dict[int, float] = defaultdict(float)
        added = own = young = changing = both = 0.0
        for member in members:
            hours = self.hours(member.workload)
            if len(hours) < options.cold_hours:
                stand_in = self.stand_in(member)
                added += stand_in
                own += stand_in
                young += member.limit * (stand_in < member.limit)
                continue
            gap = max(0.0, self.live(member.series) - max(hours.values()))
            added += gap
            own += min(max(hours.values()) + gap, member.limit)
            for hour, amount in hours.items():
                together[hour] += amount
            is_young, changes = len(hours) < options.young_hours, self.announced.get(member.workload, 0.0) > at
            young += member.limit * is_young
            changing += member.limit * changes
            both += member.limit * (is_young and changes)
        limits = sum(member.limit for member in members)
        own = min(own, limits)
        number = max(1, sum(member.limit > 0 for member in members))
        size = (options.size_reference / number) ** options.size_power
        size = min(max(size, 1 / options.size_most), options.size_most)
        base = min(max(together.values(), default=0.0) + added, own)
        shares = (part / limits if limits else 0.0 for part in (young, changing, both))
        return Known(base, own, limits, size, *shares)

    def risk(self, known: Known) -> float:
        options = self.options
        return known.size * (
            (known.own - known.together) + options.novelty * (known.limits - known.own) + options.noise * known.together
        )

    def peak(self, at: float, machine: int, members: Sequence[Row]) -> float:
        known, knob = self.known(at, members), self.options.knob
        for_young = max(self.options.young_knob - knob, 0.0)
        for_changing = max(self.options.rollout_knob - knob, for_young)
        knob += for_young * (known.young - known.both) + for_changing * known.changing
        return known.together + knob * self.risk(known)


def single(value: float) -> float:
    """The nearest number of single precision."""
    near: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return near
