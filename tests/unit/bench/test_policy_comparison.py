"""What two policies cost in the same surges, worked out by hand, and the simple policy that one of them is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bench.figures import judged as stored
from tests.bench.policies import documents
from tests.bench.policies.comparison import (
    ComparisonOutcome,
    CpuUse,
    Lowered,
    MachineUse,
    PolicyComparison,
    SurgeFigures,
    SurgeSeen,
    figures,
    needed_cpus,
    outcome,
    rate,
    stolen,
    undisturbed,
)
from tests.bench.policies.documents import ALL_OR_NOTHING, COOL_DOWN_SECONDS, PRECISE
from tests.bench.policies.figure import judged
from tests.bench.policies.watch import ObservedQuotaChange, lowered_of
from tests.bench.verdict import Conditions

from slackwater.demo.programs.load import Sample
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.values import Rule
from slackwater.waterline.rulebook import rulebook_of

TWO = MachineUse(cpus=2, waterline=0.88, target=0.80, wanted=0.8)
PRESENT = {"apiVersion": "slackwater.io/v1alpha1", "kind": "NodeQOS", "metadata": {"name": "default"}, "spec": {}}


def used(*stretches: tuple[float, float, float], since: float = 100.0) -> list[CpuUse]:
    """Readings ten times a second: (seconds, CPUs of the machine, CPUs of batch) one after the other."""
    found = [CpuUse(since, 0.0, 0.0)]
    for seconds, machine, batch in stretches:
        for _ in range(round(10 * seconds)):
            last = found[-1]
            found.append(CpuUse(last.at + 0.1, last.machine + machine / 10, last.batch + batch / 10))
    return found


def seen(readings: list[CpuUse], *, ended: float = 104.0, until: float = 106.0, lowered: int = 0) -> SurgeSeen:
    actions = [Lowered(101.2, f"pod-{number}") for number in range(lowered)]
    return SurgeSeen(PRECISE, 100.0, ended, until, readings, actions, ())


def test_a_surge_that_is_answered_exactly_costs_what_was_needed() -> None:
    """1.3 CPUs of prod and others, batch wants 0.8, 1.6 may be used: 0.5 has to go for four seconds."""
    found = figures(seen(used((4, 1.6, 0.3), (2, 0.9, 0.8)), lowered=5), TWO)
    assert (found.needed, found.lost) == (2.0, 2.0)
    assert (found.pods, found.actions, found.seconds_above) == (5, 5, 0)


def test_all_at_their_floor_and_late_to_come_back_cost_more() -> None:
    """0.72 of 0.8 gone for four seconds and two more: 4.32 instead of 2."""
    found = figures(seen(used((4, 1.38, 0.08), (2, 0.18, 0.08)), lowered=8), TWO)
    assert (found.needed, found.lost) == (2.0, 4.32)


def test_seconds_before_the_answer_count_as_above_and_lose_less_than_needed() -> None:
    readings = used((1, 2.0, 0.7), (3, 1.6, 0.3), (2, 0.9, 0.8))
    found = figures(seen(readings), TWO)
    assert (found.crossed, found.seconds_above) == (True, 1.0)
    assert found.needed == 2.0
    assert found.lost == pytest.approx(0.1 + 3 * 0.5)


def test_below_is_the_start_of_the_first_whole_second_at_or_below_the_waterline() -> None:
    """1.76 of 2 CPUs: a second that begins 0.3 s before the quota is lowered has 0.3 x 2 + 0.7 x 1.6 = 1.72, one that
    begins 0.4 s before it 1.76."""
    found = figures(seen(used((1.2, 2.0, 0.7), (4.8, 1.6, 0.3))), TWO)
    assert found.seconds_to_below in (0.8, 0.9), "1.76 is at the waterline but for what floats round"
    assert figures(seen(used((6, 2.0, 0.7))), TWO).seconds_to_below is None
    never = figures(seen(used((6, 1.7, 0.4))), TWO)
    assert (never.crossed, never.seconds_to_below) == (False, None)


def test_what_comes_down_only_because_the_surge_is_over_is_not_relief() -> None:
    found = figures(seen(used((4, 2.0, 0.7), (2, 0.9, 0.8))), TWO)
    assert (found.crossed, found.seconds_to_below) == (True, None)


@given(st.floats(0, 2), st.floats(0, 0.8))
def test_needed_is_never_negative_nor_more_than_batch_wants(machine: float, batch: float) -> None:
    assert 0 <= needed_cpus(max(machine, batch), batch, TWO) <= TWO.wanted


@given(st.floats(0.1, 2), st.floats(0, 0.8), st.floats(0.2, 5))
def test_a_rate_does_not_depend_on_where_readings_lie(machine: float, batch: float, length: float) -> None:
    found = rate(used((6, machine, batch)), 100.13, 100.13 + length)
    assert found == (pytest.approx(machine), pytest.approx(batch))


def test_without_readings_there_is_no_rate() -> None:
    assert rate([], 1, 2) == (0.0, 0.0)
    assert rate(used((1, 1, 1)), 100.5, 100.5) == (0.0, 0.0)


def one(**changes: object) -> SurgeFigures:
    plain = {
        "policy": PRECISE, "needed": 2.0, "lost": 2.2, "seconds_above": 1.0, "crossed": True, "seconds_to_below": 1.0,
        "pods": 5, "actions": 6,
    }  # fmt: skip
    return SurgeFigures.model_validate(plain | changes)


def test_an_outcome_sums_its_surges() -> None:
    surges = [one(), one(lost=2.0, seconds_to_below=1.5, pods=4), one(crossed=False, seconds_to_below=None)]
    samples = [Sample("surge", 0.0, 0.001 * n, n != 7) for n in range(1, 101)]
    found = outcome(surges, samples)
    assert (found.surges, found.crossed, found.never_below) == (3, 2, 0)
    assert (found.needed, found.lost, found.above_needed_ratio) == (6.0, 6.4, 0.067)
    assert (found.below_p50_seconds, found.below_p99_seconds, found.below_max_seconds) == (1.0, 1.5, 1.5)
    assert (found.p99_ms, found.errors, found.requests) == (99.0, 1, 100)
    assert (found.pods_a_surge, found.actions) == (4.7, 18)


def test_a_surge_that_was_never_answered_is_counted() -> None:
    assert outcome([one(seconds_to_below=None)], ()).never_below == 1
    nothing = outcome([], ())
    assert (nothing.above_needed_ratio, nothing.p99_ms, nothing.below_p99_seconds) == (None, None, None)


def test_only_what_takes_something_is_an_action() -> None:
    changes = [
        ObservedQuotaChange(1, "a", 50),
        ObservedQuotaChange(2, "b", 20),
        ObservedQuotaChange(3, "b", 60),
        ObservedQuotaChange(4, "b", 30),
        ObservedQuotaChange(5, "a", None),
    ]
    found = lowered_of(changes, {"a": None, "b": 100})
    assert [(each.at, each.pod) for each in found] == [(1, "a"), (2, "b"), (4, "b")]


def rule_of(policy: str) -> Rule:
    parsed = NodeQos.model_validate(documents.document(PRESENT, policy))
    return rulebook_of(parsed).policies.nodes[0].rules[0]


def test_both_policies_are_documents_of_ours_with_the_same_waterline() -> None:
    precise, simple = rule_of(PRECISE), rule_of(ALL_OR_NOTHING)
    assert precise.waterline == simple.waterline
    assert float(precise.target) == documents.COMPARED.target
    assert float(simple.target) == 0, "everything that is used is asked for: every candidate goes to its floor"
    assert simple.cool_down_seconds > 3600, "the product's own, careful restore never begins"


def test_giving_everything_back_is_mode_observe_of_the_same_document() -> None:
    document = documents.document(PRESENT, ALL_OR_NOTHING)
    released = documents.released(document)
    assert (document["spec"]["mode"], released["spec"]["mode"]) == ("throttle", "observe")
    assert released["spec"]["rules"] == document["spec"]["rules"]
    NodeQos.model_validate(released)


@given(st.floats(0, 100), st.floats(0, 100))
def test_all_or_nothing_gives_back_once_the_cool_down_is_over_and_not_before(last_above: float, waited: float) -> None:
    now = last_above + waited
    assert documents.is_over(now, last_above, throttled=True) == (now - last_above >= COOL_DOWN_SECONDS)
    assert not documents.is_over(now, last_above, throttled=False)


def good(**changes: object) -> ComparisonOutcome:
    plain = outcome([one(lost=2.1)] * 4, [Sample("surge", 0.0, 0.030, True)] * 100)
    return plain.model_copy(update=changes)


def compared(precise: ComparisonOutcome) -> PolicyComparison:
    return PolicyComparison(
        waterline=0.88, target=0.8, cpus=2, surge_seconds=4, batch_pods=8, batch_wanted_cpus=0.8, alone_p99_ms=28.0,
        outcomes={ALL_OR_NOTHING: good(lost=20.0, above_needed_ratio=1.5), PRECISE: precise},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, ""),
        ({"below_p99_seconds": 2.1}, "below the waterline p99 2.1 s"),
        ({"never_below": 1}, "never below the waterline 1"),
        ({"crossed": 0}, ""),
        ({"actions": 0}, "surges in which precise acted 0"),
        ({"p99_ms": 34.0}, "p99 over that of prod alone 1.21"),
        ({"p99_ms": None}, "p99 over that of prod alone nothing seen"),
        ({"above_needed_ratio": 0.16}, "lost above needed 0.16"),
    ],
)
def test_each_goal_of_the_precise_policy_is_a_target(changes: dict[str, object], missed: str) -> None:
    figure = stored(judged(compared(good(**changes))), Conditions(5e6, 5e6, 0.0))
    assert figure["verdict"] == ("missed" if missed else "met")
    assert missed in figure["why"]


def test_a_policy_that_was_not_measured_misses() -> None:
    found = compared(good()).model_copy(update={"outcomes": {ALL_OR_NOTHING: good()}})
    assert stored(judged(found), Conditions(5e6, 5e6, 0.0))["verdict"] == "missed"


def test_one_stalled_surge_moves_the_p99_of_all_but_not_that_of_the_median_surge() -> None:
    calm = [Sample("surge", 0.0, 0.030, True)] * 100
    found = [one(lost=1.0).model_copy(update={"p99_ms": p99}) for p99 in (30.0, 500.0, 31.0)]
    told = outcome(found, calm + [Sample("surge", 0.0, 0.500, True)] * 100 + calm)
    assert (told.p99_ms, told.p99_median_ms) == (500.0, 31.0)
    assert outcome([one(lost=1.0)], []).p99_median_ms is None


STEALING = [CpuUse(100.0 + tick / 10, 0.0, 0.0, 0.02 * min(max(tick - 20, 0), 10)) for tick in range(41)]
"""Four seconds; in the third the host takes 0.2 CPU seconds."""


def test_steal_is_in_the_comparison() -> None:
    assert figures(seen(STEALING, ended=104.0, until=104.0), TWO).stolen == 0.2
    assert stolen(STEALING, 102.0, 102.5) == pytest.approx(0.1)
    assert stolen([], 100.0, 104.0) == 0.0


@given(st.lists(st.tuples(st.floats(100.0, 103.999), st.floats(0.001, 5.0)), max_size=40))
def test_requests_are_left_out_by_their_time_and_never_for_being_slow(requests: list[tuple[float, float]]) -> None:
    """The third second is disturbed, and the half before it runs into it."""
    samples = [Sample("surge", at, latency, True) for at, latency in requests]
    kept = [sample for sample in samples if not 101.5 <= sample.intended < 103.0]
    assert undisturbed(samples, STEALING) == kept
    assert undisturbed(samples, used((4, 1.0, 0.5))) == samples


def test_a_p99_of_undisturbed_requests_needs_enough_of_them() -> None:
    calm = [Sample("surge", 0.0, 0.030, True)] * 200
    assert outcome([one(lost=1.0)], calm, calm).p99_undisturbed_ms == 30.0
    assert outcome([one(lost=1.0)], calm, calm[1:]).p99_undisturbed_ms is None
