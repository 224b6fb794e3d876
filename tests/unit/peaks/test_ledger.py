"""What came of predictions: scored a day later, over the pods that stayed, and turned into a knob."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from histories import History, feed, histories, members_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_models import ReferenceProfile, Row, block_of, by_machine

from slackwater.peaks.calibration import CalibrationScores, LedgerOptions, reference_tail
from slackwater.peaks.fleet import machine_members
from slackwater.peaks.workload_profile import ProfileOptions, WorkloadProfile

OPTIONS = ProfileOptions(
    *(0.2, 0.02),
    history_hours=48,
    live_days=2,
    cold_hours=1,
    young_hours=0,
    ledger_after_hours=3,
    ledger=LedgerOptions(prior_days=0.5, half_life_seconds=86_400.0 * 7),
)


@dataclass
class Entry:
    machine: int
    hour: int
    members: frozenset[int]
    base: float
    risk: float
    weight: float
    peak: float = 0.0
    heard: set[int] = field(default_factory=set)


class ReferenceLedger(ReferenceProfile):
    """Every record as an object; scores as (score, weight, hour of finishing)."""

    def __init__(self, options: ProfileOptions) -> None:
        super().__init__(options)
        self.entries: list[Entry] = []
        self.scores: list[tuple[float, float, int]] = []
        self.seen: dict[int, set[int]] = defaultdict(set)
        self.now = -math.inf

    def fold(self, at: float, rows: list[Row]) -> None:
        hour = block_of(at, 3600)
        measured = [row for row in rows if not math.isnan(row.usage)]
        if not measured:
            return
        if hour >= self.now:
            self.now = hour
            self._finish(hour)
            for machine, members in by_machine(measured).items():
                self._hear(at, hour, machine, members)
        super().fold(at, rows)

    def _finish(self, hour: int) -> None:
        for entry in [entry for entry in self.entries if entry.hour <= hour - 24]:
            self.entries.remove(entry)
            above = entry.peak - entry.base
            worst = 8.0 if above > 0 else -1.0
            weight = entry.weight * len(entry.heard) / 24 / 24
            self.scores.append((above / entry.risk if entry.risk > 0 else worst, weight, entry.hour + 24))

    def _hear(self, at: float, hour: int, machine: int, members: list[Row]) -> None:
        self.seen[machine] |= {row.series for row in members}
        mine = [entry for entry in self.entries if entry.machine == machine]
        if not any(entry.hour == hour for entry in mine):
            known = self.known(at, members)
            old = sum(r.limit * self.matured(r.workload) for r in members)
            weight = old / known.limits if known.limits else 0.0
            entry = Entry(machine, hour, frozenset(self.seen[machine]), known.together, self.risk(known), weight)
            self.entries.append(entry)
            mine.append(entry)
        for entry in mine:
            entry.heard.add(hour)
            there = sum(min(max(r.usage, 0.0), r.limit) for r in members if r.series in entry.members)
            entry.peak = max(entry.peak, there)

    def matured(self, workload: int) -> float:
        hours = len(self.hours(workload))
        return min(1.0, hours / self.options.ledger_after_hours) ** 3 if hours >= self.options.cold_hours else 0.0

    def tail(self, above: float) -> float:
        """Weight of scores in the bucket that begins at `above` and beyond, in machine-days of now."""
        half = self.options.ledger.half_life_seconds
        return sum(
            weight * 2 ** (-(self.now - hour) * 3600 / half)
            for score, weight, hour in self.scores
            if score >= above - 1e-12
        )


def run(history: History) -> tuple[WorkloadProfile, ReferenceLedger]:
    model, reference = WorkloadProfile(OPTIONS), ReferenceLedger(OPTIONS)
    feed(model, history)
    for at, rows in history:
        reference.fold(at, rows)
    return model, reference


@given(histories(rounds=24))
@settings(max_examples=60, deadline=None)
def test_the_ledger_equals_the_readable_one(history: History) -> None:
    model, reference = run(history)
    days, _ = model.ledger.coverage()
    assert days == pytest.approx(reference.tail(-math.inf), rel=1e-9, abs=1e-12)
    weights = model.ledger.done.weights[0] * model.ledger._now()
    starts = CalibrationScores().starts
    found = np.cumsum(weights[::-1])[::-1]
    for at in range(1, len(starts), 7):
        # a score on the boundary of a bucket may fall on either side by its last bit
        low, high = reference.tail(starts[at] + 1e-9), reference.tail(starts[at] - 1e-9)
        assert low - 1e-9 <= found[at] <= high + 1e-9


@given(histories(rounds=24), st.floats(0.001, 0.3))
@settings(max_examples=40, deadline=None)
def test_the_knob_is_the_smallest_that_keeps_the_stated_rate(history: History, rate: float) -> None:
    model, _ = run(history)
    ledger = model.ledger
    weights = (ledger.done.weights[0] * ledger._now() + ledger.pending) / ledger.known_now
    starts = ledger.scores.starts
    prior = OPTIONS.ledger.prior_days

    def share(above: float) -> float:
        mass = float(weights[starts >= above - 1e-12].sum()) + prior * float(reference_tail(np.array([above]))[0])
        return mass / (prior + float(weights.sum()))

    knob = ledger.knob(rate)
    aim = OPTIONS.ledger.safety * rate
    assert share(knob) <= aim * (1 + 1e-9) or knob == starts[-1]
    below = starts[(starts >= 0) & (starts < knob - 1e-12)]
    assert all(share(each) > aim * (1 - 1e-9) for each in below[-3:])


@given(histories(rounds=16), st.floats(0.001, 0.2), st.floats(0.001, 0.2))
@settings(max_examples=30, deadline=None)
def test_a_stricter_rate_never_lowers_the_knob(history: History, one: float, two: float) -> None:
    model, _ = run(history)
    assert model.ledger.knob(max(one, two)) <= model.ledger.knob(min(one, two))


@given(histories(rounds=16), st.floats(0, 3), st.floats(0, 2e4))
@settings(max_examples=40, deadline=None)
def test_a_knob_below_the_score_is_a_violated_peak(history: History, knob: float, reached: float) -> None:
    model = WorkloadProfile(replace(OPTIONS, knob=knob, violation_rate=None))
    feed(model, history)
    at, rows = history[-1]
    fleet = machine_members(members_of(rows))
    bounds = model.bounds(at, fleet)
    risk = sum(model.terms(bounds, np.ones(1)).values(), np.zeros(1)) - bounds.seen_together
    peak = fleet.sums(np.zeros(len(rows))) + model.peaks(at, members_of(rows)).peak[fleet.machines]
    for number in range(len(fleet.machines)):
        if peak[number] < bounds.limits[number] and risk[number] > 1e-6 * reached:
            score = (reached - bounds.seen_together[number]) / risk[number]
            if abs(score - knob) > 1e-6:
                assert (score > knob) == (peak[number] < reached)


def test_without_records_the_reference_tail_decides() -> None:
    ledger = WorkloadProfile(ProfileOptions(violation_rate=0.01)).ledger
    assert ledger.coverage() == (0.0, 0.0)
    assert ledger.knob(0.01) == pytest.approx(0.22)
    assert ledger.knob(0.9) == 0.0
    assert ledger.knob(1e-9) == 8.0


def test_violations_that_were_measured_show_in_the_coverage_and_raise_the_knob() -> None:
    fixed, calibrated = (WorkloadProfile(replace(OPTIONS, violation_rate=rate)) for rate in (None, 0.02))
    before = calibrated.knob()
    for hour in range(24 * 6):
        used = 200.0 + 100.0 * (hour // 24)  # higher every day than on any day before
        rows = [Row(0, 0, 0, 1000.0, used), Row(0, 1, 1, 1000.0, used)]
        for model in (fixed, calibrated):
            feed(model, [(3600.0 * (hour + 1), rows)])
    days, broken = fixed.ledger.coverage()
    assert 3 < days < 5.1
    assert broken > 0.9
    assert calibrated.ledger.coverage()[1] < broken / 2
    assert calibrated.knob() > before + 0.3


def test_what_went_wrong_an_hour_ago_counts_before_its_day_is_over() -> None:
    model = WorkloadProfile(replace(OPTIONS, violation_rate=0.02))
    quiet, jump = Row(0, 0, 0, 1000.0, 200.0), Row(0, 0, 0, 1000.0, 900.0)
    for hour in range(40):
        feed(model, [(3600.0 * (hour + 1), [quiet])])
    before = model.knob()
    for hour in range(40, 46):
        feed(model, [(3600.0 * (hour + 1), [jump])])
    assert model.knob() > before + 1


def test_records_from_little_history_fade_as_more_is_known() -> None:
    options = replace(OPTIONS, violation_rate=0.02, ledger_after_hours=48)
    model, calm = WorkloadProfile(options), Row(0, 0, 0, 1000.0, 200.0)
    for hour in range(8):  # every hour higher than the one before: predictions from few hours are too low
        feed(model, [(3600.0 * (hour + 1), [calm._replace(usage=200.0 + 90.0 * hour)])])
    feed(model, [(3600.0 * (hour + 1), [calm]) for hour in range(8, 40)])
    alarmed = model.knob()
    feed(model, [(3600.0 * (hour + 1), [calm]) for hour in range(40, 80)])
    assert model.ledger.known_now == 1.0
    assert model.knob() < alarmed / 2


def test_records_count_fully_while_nothing_better_is_known() -> None:
    few, enough = (WorkloadProfile(replace(OPTIONS, ledger_after_hours=hours)) for hours in (1000, 1))
    for model in (few, enough):
        feed(model, [(3600.0 * (hour + 1), [Row(0, 0, 0, 1000.0, 200.0 + hour)]) for hour in range(30)])
    masses = [float((m.ledger.done.weights[0] + m.ledger.pending).sum() / m.ledger.known_now) for m in (few, enough)]
    assert 0.1 < masses[0] / masses[1] < 1


def test_a_pod_that_came_after_an_hour_was_saved_belongs_to_the_next_hour() -> None:
    model = WorkloadProfile(OPTIONS)
    stays, late = Row(0, 0, 0, 1000.0, 300.0), Row(0, 1, 1, 1000.0, 700.0)
    feed(model, [(600.0, [stays]), (1200.0, [stays, late]), (4200.0, [stays, late])])
    open_records = model.ledger.open
    assert open_records["peak"][open_records.line(0), 0] == 300.0
    assert open_records["peak"][open_records.line(1), 0] == 1000.0


def test_pods_that_left_are_not_held_against_a_prediction() -> None:
    model = WorkloadProfile(OPTIONS)
    stays, guest = Row(0, 0, 0, 1000.0, 300.0), Row(0, 1, 1, 1000.0, 700.0)
    for hour in range(72):
        rows = [stays] if hour < 30 else [stays, guest._replace(series=1 + hour // 2)]
        feed(model, [(3600.0 * (hour + 1), rows)])
    _, broken = model.ledger.coverage()
    assert broken == 0.0
