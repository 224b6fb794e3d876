"""The verdict: every condition of the run fails on its own, and the closing sentence follows the numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo import summary, table
from slackwater.demo.comparison import PolicyComparison
from slackwater.demo.programs.load import Sample
from slackwater.demo.summary import ALONE, PLAIN, SLACKWATER, WEIGHTS, OfferLine, Phase, Reaction, RunCounts, RunSummary

OFFER = OfferLine(node="n", cpu_milli=500, memory_bytes=1 << 30, decision_ids={"batch-cpu": "d1"})


def phase(name: str, p99_ms: float | None, errors: int = 0, pressure: float = 0.02) -> Phase:
    return Phase(
        name=name, seconds=10, requests=1000, request_rate=100, p50_ms=8, p99_ms=p99_ms, errors=errors,
        pressure_mean=pressure, pressure_p90=pressure, prod_cpu=1.2, batch_cpu=0.4,
    )  # fmt: skip


def good(**changes: Any) -> RunSummary:
    p99s = {ALONE: 20.0, PLAIN: 120.0, WEIGHTS: 40.0, SLACKWATER: 25.0}
    document: dict[str, Any] = {
        "driver": "linux",
        "driver_note": "",
        "machine": {},
        "started_at": datetime(2026, 1, 5, tzinfo=UTC),
        "seconds": 90,
        "workload": {},
        "waterline": 0.03,
        "phases": {name: phase(name, p99, pressure=0.05) for name, p99 in p99s.items()},
        "reaction": Reaction(seconds_to_lowered=1.0, seconds_to_relief=2.0, seconds_to_restored=4.0),
        "counts": RunCounts(reports=9, windows=3, predictions=3, offers=1, decisions={"throttle": 1, "restore": 1}),
        "offers": (OFFER,),
        "restored_exactly": True,
        "finished": True,
    }
    return RunSummary(**(document | changes))


def test_a_closed_loop_has_no_failures() -> None:
    assert summary.failures(good()) == ()
    assert good().ok


@pytest.mark.parametrize(("highest", "fails"), [(0.033, False), (0.0331, True), (None, True)])
def test_pressure_close_to_the_waterline_needs_no_throttle(highest: float | None, fails: bool) -> None:
    phases = dict(good().phases)
    phases[SLACKWATER] = phases[SLACKWATER].model_copy(update={"pressure_p90": highest})
    idle = good(phases=phases, reaction=Reaction(), counts=good().counts.model_copy(update={"decisions": {"offer": 1}}))
    assert bool(summary.failures(idle)) is fails
    assert any("no throttle was needed" in line for line in table.lines(idle)) is not fails
    lowered = idle.model_copy(update={"reaction": Reaction(seconds_to_lowered=1.0)})
    assert any("not all batch quotas were restored" in line for line in summary.failures(lowered))


def without(name: str) -> Callable[[], RunSummary]:
    return lambda: good(phases={key: value for key, value in good().phases.items() if key != name})


def counted(**changes: Any) -> Callable[[], RunSummary]:
    return lambda: good(counts=good().counts.model_copy(update=changes))


def reacted(**changes: Any) -> Callable[[], RunSummary]:
    return lambda: good(reaction=good().reaction.model_copy(update=changes))


CASES: tuple[tuple[str, Callable[[], RunSummary]], ...] = (
    ("p99 under Slackwater", lambda: good(phases=dict(good().phases) | {SLACKWATER: phase(SLACKWATER, 35.1)})),
    ("requests failed", lambda: good(phases=dict(good().phases) | {SLACKWATER: phase(SLACKWATER, 25.0, errors=1)})),
    ("latency was not measured", without(ALONE)),
    ("latency was not measured", without(SLACKWATER)),
    ("no report", counted(reports=0)),
    ("no usage window", counted(windows=0)),
    ("no peak", counted(predictions=0)),
    ("no batch offer", lambda: good(offers=())),
    ("no throttle", counted(decisions={"restore": 1})),
    ("no restore", counted(decisions={"throttle": 1})),
    ("no batch quota was lowered", reacted(seconds_to_lowered=None)),
    ("not all batch quotas were restored", reacted(seconds_to_restored=None)),
    ("left behind: cgroup /x", lambda: good(leftovers=("cgroup /x",))),
    ("not every file", lambda: good(restored_exactly=False)),
    ("unknown", lambda: good(restored_exactly=None)),
)


@pytest.mark.parametrize(("words", "broken"), CASES)
def test_each_condition_fails_by_itself_in_one_line(words: str, broken: Callable[[], RunSummary]) -> None:
    found = summary.failures(broken())
    assert len(found) == 1
    assert words in found[0]
    assert "\n" not in found[0]


@given(st.floats(0.1, 1000), st.floats(0.1, 5000))
def test_the_latency_bound_is_one_and_a_half_times_alone_plus_five(alone: float, ours: float) -> None:
    phases = dict(good().phases) | {ALONE: phase(ALONE, alone), SLACKWATER: phase(SLACKWATER, ours)}
    assert bool(summary.failures(good(phases=phases))) == (ours > 1.5 * alone + 5)


def in_pairs(*p99s: tuple[float, float]) -> dict[str, summary.Phase]:
    """The phases of a run in which (alone, ours) were measured so."""
    measured = dict(good().phases)
    for number, (alone, ours) in enumerate(p99s, start=1):
        for name, p99 in ((ALONE, alone), (SLACKWATER, ours)):
            measured[summary.nth(name, number)] = phase(summary.nth(name, number), p99)
    return measured


def test_one_pair_is_held_against_its_bound_by_itself() -> None:
    assert summary.is_too_slow(in_pairs((20.0, 60.0)))
    assert not summary.is_too_slow(in_pairs((20.0, 35.0)))
    assert not summary.is_too_slow({})
    [told] = summary.failures(good(phases=in_pairs((20.0, 60.0)), comparison=PolicyComparison(alone_p99_ms=400.0)))
    assert told == "p99 under Slackwater 60.0 ms is above 35.0 ms (1.5 x 20.0 ms alone + 5 ms)"


def test_the_median_of_three_pairs_decides() -> None:
    stalled_once = good(phases=in_pairs((20.0, 60.0), (20.0, 34.0), (20.0, 21.0)))
    assert summary.failures(stalled_once) == ()
    told = (
        "p99 under Slackwater and its bound, by pair: 60.0 of 35.0, 34.0 of 35.0, 21.0 of 35.0 ms; the median decides"
    )
    assert told in table.lines(stalled_once)
    slow_twice = good(phases=in_pairs((20.0, 60.0), (200.0, 10.0), (30.0, 55.0)))
    [failed] = summary.failures(slow_twice)
    assert failed == (
        "p99 under Slackwater 55.0 ms is above 50.0 ms (1.5 x 30.0 ms alone + 5 ms): "
        "the median of 60.0 of 35.0, 10.0 of 305.0, 55.0 of 50.0"
    )


def test_while_there_are_two_pairs_the_first_decides() -> None:
    assert summary.is_too_slow(in_pairs((20.0, 60.0), (20.0, 21.0)))


@given(st.permutations([(20.0, 60.0), (20.0, 34.0), (40.0, 64.0)]))
def test_which_pair_came_first_changes_nothing(measured: list[tuple[float, float]]) -> None:
    assert not summary.is_too_slow(in_pairs(*measured))
    assert summary.is_too_slow(in_pairs(*[(alone, 1.05 * ours) for alone, ours in measured]))


def test_a_request_that_fails_in_any_pair_fails_the_run() -> None:
    measured = in_pairs((20.0, 60.0), (20.0, 34.0), (20.0, 21.0))
    measured["slackwater-3"] = phase("slackwater-3", 21.0, errors=2)
    [failed] = summary.failures(good(phases=measured))
    assert failed.startswith("2 of ")


def test_what_a_request_costs_is_a_mean_over_all_requests() -> None:
    one = phase(ALONE, 20.0).model_copy(update={"prod_cpu": 1.0, "seconds": 10.0, "requests": 1000})
    other = phase(PLAIN, 20.0).model_copy(update={"prod_cpu": 2.0, "seconds": 10.0, "requests": 3000})
    none = phase(WEIGHTS, 20.0).model_copy(update={"prod_cpu": 9.0, "seconds": 10.0, "requests": 0})
    assert summary.cpu_seconds_per_request([one, other, none]) == pytest.approx(30 / 4000)
    with pytest.raises(ValueError, match="none of them"):
        summary.cpu_seconds_per_request([none])


def test_an_unfinished_run_is_never_ok() -> None:
    assert not good(finished=False).ok


def test_a_summary_survives_its_file() -> None:
    assert RunSummary.model_validate_json(good().model_dump_json()) == good()


def said(plain: float, weights: float, ours: float) -> str:
    p99s = {ALONE: 20.0, PLAIN: plain, WEIGHTS: weights, SLACKWATER: ours}
    return summary.conclusion({name: phase(name, p99) for name, p99 in p99s.items()})


def test_the_conclusion_names_what_reduced_the_latency() -> None:
    assert "weights alone remove 95 %" in said(120, 25, 24)
    assert "the waterline adds little" in said(120, 25, 24)
    assert "weights alone remove 60 %" in said(120, 60, 30)
    assert "with the waterline 90 %" in said(120, 60, 30)
    assert "the effect is negligible" in said(21, 21, 21)
    assert "removes only 20 %" in said(120, 100, 100)
    assert "No conclusion" in summary.conclusion({})


@given(st.lists(st.tuples(st.floats(0.001, 5), st.booleans()), min_size=1, max_size=50), st.floats(0.5, 60))
def test_a_phase_counts_every_request_and_every_error(requests: list[tuple[float, bool]], seconds: float) -> None:
    samples = [Sample("surge", 0.0, latency, ok) for latency, ok in requests]
    found = summary.phase("p", seconds, samples, [0.1, 0.3], (1.0, 0.5, 0.1, 0.0))
    assert found.requests == len(requests)
    assert found.errors == sum(not ok for _, ok in requests)
    assert found.p99_ms is not None
    assert found.p99_ms == pytest.approx(1000 * max(latency for latency, _ in requests), abs=0.01)
    assert found.pressure_mean == pytest.approx(0.2)


def test_other_work_on_the_machine_is_reported() -> None:
    busy = {ALONE: phase(ALONE, 20).model_copy(update={"other_cpu": 0.9})}
    assert "0.90 of 2 CPUs" in summary.disturbance(busy, 2)
    assert summary.disturbance({ALONE: phase(ALONE, 20)}, 2) == ""


def test_steal_is_reported_separately() -> None:
    stolen = {ALONE: phase(ALONE, 20).model_copy(update={"stolen_cpu": 0.4})}
    told = "The host took up to 0.40 of 2 CPUs from this virtual machine (steal); this disturbs the figures."
    assert summary.disturbance(stolen, 2) == told
    both = {ALONE: stolen[ALONE].model_copy(update={"other_cpu": 0.9})}
    assert summary.disturbance(both, 2).startswith(
        "Other work used up to 0.90 of 2 CPUs during the surges and the host"
    )


def test_a_phase_without_samples_has_no_percentiles() -> None:
    found = summary.phase("p", 5, [], [], (0, 0, 0, 0))
    assert (found.p50_ms, found.p99_ms, found.pressure_mean, found.request_rate) == (None, None, None, 0)


def test_the_table_shows_phases_ids_and_failures() -> None:
    text = "\n".join(table.lines(good(failures=("it broke",), conclusion="So it is.")))
    assert "9 reports, 3 windows, 3 predictions, 1 offer\n" in text
    assert "restored_exactly: true" in text
    assert "batch-cpu d1" in text
    assert "FAILED: it broke" in text
    assert "So it is." in text


def with_steal(found: dict[str, Phase], stolen_cpu: float) -> dict[str, Phase]:
    return {**found, ALONE: found[ALONE].model_copy(update={"stolen_cpu": stolen_cpu})}


def with_errors(*names: str) -> dict[str, Phase]:
    return {name: each.model_copy(update={"errors": 3 if name in names else 0}) for name, each in good().phases.items()}


SLOW = ((20.0, 60.0), (20.0, 61.0), (20.0, 62.0))
DRIFTING = ((20.0, 60.0), (36.0, 80.0), (20.0, 62.0))
EXITS: tuple[tuple[RunSummary, int, str], ...] = (
    (good(), 0, ""),
    (good(phases=with_steal(in_pairs((20.0, 25.0)), 1.0), machine={"cpus": 2}), 0, ""),
    (good(phases=in_pairs(*SLOW), machine={"cpus": 2}), 2, ""),
    (good(phases=with_steal(in_pairs(*SLOW), 0.06), machine={"cpus": 2}), 2, ""),
    (good(phases=with_steal(in_pairs(*SLOW), 0.062), machine={"cpus": 2}), 3, "the host took 3.1% of the CPUs"),
    (
        good(phases=in_pairs(*DRIFTING), machine={"cpus": 2}),
        3,
        "the p99 of the service alone varied (20.0, 36.0, 20.0 ms)",
    ),
    (good(phases=in_pairs(*DRIFTING), machine={"cpus": 2}, leftovers=("cgroup /x",)), 2, ""),
    (good(phases=in_pairs(*DRIFTING), machine={"cpus": 2}, counts=RunCounts()), 2, ""),
    (good(phases={}, machine={"cpus": 2}), 2, ""),
    (good(phases=with_errors(SLACKWATER), machine={"cpus": 2}), 2, ""),
    (good(phases=with_errors(SLACKWATER, ALONE), machine={"cpus": 2}), 3, "3 of 1000 requests failed with the service"),
)


@pytest.mark.parametrize(("found", "status", "said"), EXITS)
def test_the_exit_status_distinguishes_an_open_loop_from_an_unmeasurable_host(
    found: RunSummary, status: int, said: str
) -> None:
    assert summary.exit_status(found) == status
    told = found.model_copy(update={"not_measurable": summary.why_not_measurable(found)})
    assert summary.last_line(told).startswith(f"exit {status}: ")
    assert said in summary.last_line(told)
    assert table.lines(told)[-1] == summary.last_line(told)


def test_an_unmeasurable_host_does_not_loosen_the_bound() -> None:
    unsure = good(phases=with_steal(in_pairs(*SLOW), 1.0), machine={"cpus": 2})
    assert summary.failures(unsure)
    assert not unsure.model_copy(update={"failures": summary.failures(unsure)}).ok


def test_docs_name_every_exit_status_as_the_program_says_it() -> None:
    root = Path(__file__).resolve().parents[3]
    for page in ("README.md", "docs/getting-started.md"):
        text = " ".join((root / page).read_text().split())
        for status, words in summary.EXITS.items():
            assert f"{status} {words}" in text, page
