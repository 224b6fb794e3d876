"""What two policies cost in the same surges, worked out by hand, and the simple policy that one of them is."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from slackwater.demo import policies, table, versus
from slackwater.demo.comparison import (
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
from slackwater.demo.contest import lowered_of
from slackwater.demo.programs.load import Sample
from slackwater.demo.policies import ALL_OR_NOTHING, COOL_DOWN_SECONDS, PRECISE
from slackwater.demo.reaction import ObservedQuotaChange
from slackwater.demo.scenes.policies import POLICIES, PoliciesScene
from slackwater.demo.scenes.result import Turn, judge
from slackwater.demo.summary import Phase
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.values import Rule
from slackwater.waterline.rulebook import rulebook_of

TWO = MachineUse(cpus=2, waterline=0.88, target=0.80, wanted=0.8)
ALL = PoliciesScene(turns=(Turn(variant="all surges"),))
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
    parsed = NodeQos.model_validate(policies.document(PRESENT, policy))
    return rulebook_of(parsed).policies.nodes[0].rules[0]


def test_both_policies_are_documents_of_ours_with_the_same_waterline() -> None:
    precise, simple = rule_of(PRECISE), rule_of(ALL_OR_NOTHING)
    assert precise.waterline == simple.waterline
    assert float(precise.target) == policies.COMPARED.target
    assert float(simple.target) == 0, "everything that is used is asked for: every candidate goes to its floor"
    assert simple.cool_down_seconds > 3600, "the product's own, careful restore never begins"


def test_giving_everything_back_is_mode_observe_of_the_same_document() -> None:
    document = policies.document(PRESENT, ALL_OR_NOTHING)
    released = policies.released(document)
    assert (document["spec"]["mode"], released["spec"]["mode"]) == ("throttle", "observe")
    assert released["spec"]["rules"] == document["spec"]["rules"]
    NodeQos.model_validate(released)


@given(st.floats(0, 100), st.floats(0, 100))
def test_all_or_nothing_gives_back_once_the_cool_down_is_over_and_not_before(last_above: float, waited: float) -> None:
    now = last_above + waited
    assert policies.is_over(now, last_above, throttled=True) == (now - last_above >= COOL_DOWN_SECONDS)
    assert not policies.is_over(now, last_above, throttled=False)


def good(**changes: object) -> ComparisonOutcome:
    plain = outcome([one(lost=2.1)] * 4, [Sample("surge", 0.0, 0.030, True)] * 100)
    return plain.model_copy(update=changes)


def compared(precise: ComparisonOutcome) -> PolicyComparison:
    return PolicyComparison(
        waterline=0.88, target=0.8, cpus=2, surge_seconds=4, batch_pods=8, batch_wanted_cpus=0.8, alone_p99_ms=28.0,
        outcomes={ALL_OR_NOTHING: good(lost=20.0, above_needed_ratio=1.5), PRECISE: precise},
    )  # fmt: skip


CASES: tuple[tuple[Callable[[], ComparisonOutcome], str], ...] = (
    (good, "in time met, p99 protected met, lost no more than needed met"),
    (lambda: good(below_p99_seconds=2.1), "in time MISSED"),
    (lambda: good(never_below=1), "in time MISSED"),
    (lambda: good(crossed=0), "in time not measured"),
    (lambda: good(actions=0), "it never had to act"),
    (lambda: good(p99_ms=34.0), "p99 protected MISSED"),
    (lambda: good(p99_ms=34.0, slower=2), "unclear: 34.0 ms, and 2 of 100 requests beyond the goal"),
    (lambda: good(above_needed_ratio=0.16), "needed MISSED"),
    (lambda: good(above_needed_ratio=None), "needed not measured"),
)


@pytest.mark.parametrize(("precise", "words"), CASES)
def test_each_wish_is_judged_by_itself(precise: Callable[[], ComparisonOutcome], words: str) -> None:
    assert words in versus.judged(compared(precise()))


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


@pytest.mark.parametrize(("p99", "words"), [(33.0, "met"), (34.0, "MISSED")])
def test_beside_the_verdict_stands_that_of_the_undisturbed_requests_and_does_not_change_it(
    p99: float, words: str
) -> None:
    precise = good(p99_ms=70.0, p99_undisturbed_ms=p99, stolen=0.4)
    found = compared(precise).model_copy(update={"alone_p99_undisturbed_ms": 28.0})
    assert f"p99 protected MISSED ({words} without steal)" in versus.judged(found)
    out = StringIO()
    Console(width=100, file=out).print(versus.compared(found))
    assert "prod p99 without steal (alone 28.0)" in out.getvalue()
    quiet = compared(good(p99_ms=70.0)).model_copy(update={"alone_p99_undisturbed_ms": 28.0})
    assert "host" not in versus.judged(quiet)


def test_the_definition_stands_beside_the_figures() -> None:
    text = "\n".join(versus.lines(compared(good())))
    assert "machine - batch + 0.80" in text
    assert "1.60 CPU" in text


@pytest.mark.parametrize(("needed", "is_told"), [(13.4, False), (13.5, True)])
def test_a_surge_that_needs_all_of_batch_is_reported(needed: float, is_told: bool) -> None:
    """Three surges of five seconds in which batch wants one CPU: 15 CPU seconds."""
    found = compared(good(needed=needed, surges=3)).model_copy(update={"batch_wanted_cpus": 1.0, "surge_seconds": 5.0})
    assert any("both policies act alike" in line for line in versus.lines(found)) is is_told


def test_both_tables_fit_into_a_narrow_terminal_with_every_name_readable() -> None:
    figures = {
        "seconds": 10,
        "requests": 1000,
        "request_rate": 163.4,
        "p50_ms": 1393.9,
        "p99_ms": 9922.6,
        "errors": 805,
    }
    others = {"pressure_mean": 0.445, "pressure_p90": 0.455, "prod_cpu": 1.19, "batch_cpu": 0.53, "other_cpu": 0.07}
    phases = {name: Phase.model_validate({"name": name} | figures | others) for name in table.TITLES}
    out = StringIO()
    printed = Console(width=100, file=out, highlight=False)
    printed.print(table.phases_of(phases))
    printed.print(versus.compared(compared(good())))
    lines = out.getvalue().splitlines()
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 100
    assert all(title in text for title in (*table.TITLES.values(), *versus.TITLES.values()))
    assert "…" not in text
    assert all(line.endswith(tuple("┓┃┩│┘")) for line in lines if line.startswith(tuple("┏┃┡│└")))


def test_the_scene_policies_has_the_comparison_as_its_table() -> None:
    found = compared(good())
    told = POLICIES.report(PoliciesScene(turns=(Turn(variant="all surges"),), comparison=found))
    assert told.columns == ("", "all or nothing", "precise", "goal")
    assert {len(row) for row in told.rows} == {4}
    assert [row[0] for row in told.rows][-1] == "above the waterline, s"
    assert told.sentences == tuple(versus.lines(found))


@pytest.mark.parametrize(
    ("changes", "failed", "unmeasured"),
    [
        ({}, "", ""),
        ({"p99_ms": 70.0}, "p99 protected MISSED: 70.0 ms, alone 28.0, goal 1.2 times that", ""),
        ({"p99_ms": 70.0, "stolen": 0.4, "p99_undisturbed_ms": 34.0}, "p99 protected MISSED: 70.0 ms", ""),
        ({"p99_ms": 70.0, "stolen": 0.4, "p99_undisturbed_ms": 33.0}, "", "p99 protected only without what the host"),
        ({"p99_ms": 70.0, "stolen": 0.4, "p99_undisturbed_ms": None}, "p99 protected MISSED: 70.0 ms", ""),
        ({"p99_ms": 34.0, "slower": 4, "requests": 300}, "", ""),
        ({"p99_ms": 34.0, "slower": 12, "requests": 300}, "p99 protected MISSED: 34.0 ms", ""),
        ({"above_needed_ratio": 0.16}, "lost no more than needed MISSED: +16%, goal at most 15%", ""),
        ({"never_below": 1}, "below the waterline in time MISSED: after seconds: 1.00, 1 never, goal 2", ""),
        ({"p99_ms": None}, "", "p99 protected: not measured"),
        ({"crossed": 0}, "", "below the waterline in time: not measured"),
        ({"actions": 0, "p99_ms": 70.0}, "", "it never had to act"),
    ],
)
def test_a_missed_goal_fails_the_run_and_one_that_was_not_measured_is_not_shown(
    changes: dict[str, object], failed: str, unmeasured: str
) -> None:
    found = compared(good(**changes)).model_copy(update={"alone_p99_undisturbed_ms": 28.0})
    report = judge("policies", POLICIES.report(ALL.model_copy(update={"comparison": found})), ALL)
    assert (bool(report.failures), bool(report.not_measurable)) == (bool(failed), bool(unmeasured))
    assert failed in "".join(report.failures)
    assert unmeasured in "".join(report.not_measurable)
    assert bool(failed) <= ("MISSED" in versus.judged(found))


def test_a_policy_that_was_not_measured_is_not_shown() -> None:
    found = compared(good()).model_copy(update={"outcomes": {ALL_OR_NOTHING: good()}})
    assert versus.not_measured(found) == ["policies: precise: not measured"]
    assert versus.failures(found) == []


def test_a_comparison_that_is_left_out_says_why() -> None:
    assert versus.lines(PolicyComparison(left_out="skipped: it needs SECONDS=110 or more")) == [
        "all or nothing against precise: skipped: it needs SECONDS=110 or more"
    ]
