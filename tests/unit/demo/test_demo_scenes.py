"""Scenes say what their turns carry: spreads, differences of all turns, and nothing where a turn was disturbed."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from statistics import median
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo import summary, table
from slackwater.demo.chance import by_chance
from slackwater.demo.reaction import ObservedQuotaChange
from slackwater.demo.scenes import cpu_picture, cpu_result, lend_picture, lend_result
from slackwater.demo.scenes.cpu import quota_seconds
from slackwater.demo.scenes.cpu_result import CpuScene, CpuTurn
from slackwater.demo.scenes.lend import LEND, Room, place
from slackwater.demo.scenes.lend_result import LendScene, LendTurn
from slackwater.demo.machine.other_work import OtherWork
from slackwater.demo.scenes.result import MOST_OTHER_CPUS, Result, SceneReport, SceneSummary, Turn, interleaved, judge
from slackwater.demo.scenes.spread import difference_text, side, spread_text
from slackwater.demo.summary import Phase

values = st.lists(st.floats(0.1, 5000), min_size=1, max_size=6)


@given(values)
def test_a_spread_is_the_median_with_the_extremes(found: list[float]) -> None:
    numbers = [float(one) for one in re.findall(r"[\d.]+", spread_text(found))]
    wanted = [round(one, 1) for one in (median(found), min(found), max(found))]
    assert numbers in (wanted, wanted[:1])


@given(values, values)
def test_a_difference_is_claimed_only_where_all_turns_are_on_one_side(ours: list[float], others: list[float]) -> None:
    said = difference_text("ours", ours, "theirs", others)
    within = max(max(ours) / min(ours), max(others) / min(others))
    assert ("lower" in said) is (max(ours) < min(others) and min(others) / max(ours) > within)
    assert ("higher" in said) is (max(others) < min(ours) and min(ours) / max(others) > within)
    assert ("no difference" in said) is (side(ours, others) == 0)
    assert side(ours, others) == -side(others, ours)


def test_a_difference_is_a_factor_and_a_zero_is_below_all_else() -> None:
    assert side([37.0, 47.0], [226.0, 430.0]) == -1
    assert side([20.0, 30.0], [31.0, 33.0]) == 0
    assert side([0.9, 1.8], [0.0, 0.0]) == 1
    assert side([0.0, 1.0], [2.0, 2.0]) == 0


@given(st.integers(1, 5), st.integers(1, 5))
def test_every_variant_has_as_many_turns_and_none_is_always_first(variants: int, turns: int) -> None:
    names = [str(number) for number in range(variants)]
    order = interleaved(names, turns)
    assert all(order.count(name) == turns for name in names)
    assert order[: 2 * variants] == [*names, *reversed(names)][: len(order)]


@given(st.lists(st.floats(0, 2), max_size=6))
def test_nothing_is_compared_or_failed_where_a_turn_was_disturbed(others: list[float]) -> None:
    turns = tuple(Turn(variant="ours", other=OtherWork(cpus=cpus, busiest="cc (pid 7), 1.00 CPU")) for cpus in others)
    whole = SceneReport(rows=(("a",),), sentences=("ours is lower",), failures=("it broke",))
    found = judge("cpu", whole, Result(turns=turns))
    disturbed = [number for number, cpus in enumerate(others, 1) if cpus > MOST_OTHER_CPUS]
    assert found.rows == whole.rows
    assert len(found.not_measurable) == len(disturbed)
    for number, text in zip(disturbed, found.not_measurable, strict=True):
        assert f"turn {number} (ours)" in text
        assert f"used {others[number - 1]:.2f} CPU" in text
        assert "cc (pid 7)" in text
    assert (found.failures, found.sentences) == (
        ((), found.sentences) if disturbed else (("it broke",), ("ours is lower",))
    )
    assert ("nothing is compared" in found.sentences[0]) is bool(disturbed)


def run_of(**scenes: SceneSummary) -> summary.RunSummary:
    document: dict[str, Any] = {
        "driver": "linux", "driver_note": "", "machine": {}, "started_at": "2026-01-01T00:00:00Z", "seconds": 90,
        "workload": {}, "waterline": None, "phases": {}, "scenes": scenes, "restored_exactly": True,
    }  # fmt: skip
    return summary.RunSummary(**document)


def test_the_exit_status_is_the_worst_of_the_scenes() -> None:
    good, broken = SceneSummary(sentences=("fine",)), SceneSummary(failures=("lend: no pod",))
    disturbed, skipped = SceneSummary(not_measurable=("cpu, turn 1",)), SceneSummary(skipped="it needs 25 s")
    assert summary.exit_status(run_of(lend=good, cpu=skipped)) == 0
    assert summary.exit_status(run_of(lend=good, cpu=disturbed)) == 3
    assert summary.exit_status(run_of(lend=broken, cpu=disturbed)) == 2
    assert summary.exit_status(run_of(lend=skipped)) == 3
    assert summary.exit_status(run_of(lend=good).model_copy(update={"leftovers": ("cgroup /x",)})) == 2


def test_the_lines_below_the_tables_name_the_pictures() -> None:
    lend, skipped = SceneSummary(picture="/x/lend.svg"), SceneSummary(skipped="it needs 20 s")
    assert "pictures: /x/lend.svg" in table.lines(run_of(lend=lend, cpu=skipped))
    assert not any("pictures" in line for line in table.lines(run_of(cpu=skipped)))


lend_turns = st.builds(
    LendTurn,
    variant=st.sampled_from(lend_result.VARIANTS),
    seconds=st.just(4.0),
    requests=st.integers(0, 500),
    errors=st.integers(0, 2),
    p99_ms=st.one_of(st.none(), st.floats(1, 500)),
    slowest_ms=st.lists(st.floats(1, 500), max_size=20).map(lambda found: tuple(sorted(found, reverse=True))),
    prod_cpu=st.floats(0, 2),
    free_milli=st.integers(0, 2000),
    placed=st.integers(0, 8),
    placed_milli=st.integers(0, 2000),
    batch_core_seconds=st.floats(0, 8),
)
lends = st.builds(LendScene, cpu_milli=st.just(2000), waiting=st.just(8), pod_milli=st.just(250),
                  turns=st.lists(lend_turns, max_size=6).map(tuple))  # fmt: skip


@given(lends)
def test_lend_says_the_spreads_of_its_rows(scene: LendScene) -> None:
    found = lend_result.report(scene)
    assert len(found.rows) == len(scene.turns)
    assert all(len(row) == len(found.columns) for row in found.rows)
    for variant in lend_result.VARIANTS:
        said = [text for text in found.sentences if text.startswith(f"lend, {lend_result.TITLES[variant]}:")]
        assert len(said) == bool(scene.of(variant))
        if said:
            assert spread_text([turn.batch_core_seconds for turn in scene.of(variant)]) in said[0]
            assert spread_text(scene.p99s(variant)) in said[0]


@given(lends)
def test_lend_wins_core_hours_at_the_same_p99_or_fails(scene: LendScene) -> None:
    ours, without = scene.p99s(lend_result.OFFERS), scene.p99s(lend_result.REQUESTS)
    told = [text for text in lend_result.failures(scene) if "p99" in text]
    if not ours or not without:
        assert told
        return
    bound = 1.2 * median(without) + 5
    turns = scene.of(lend_result.OFFERS)
    slower = sum(one > bound for turn in turns for one in turn.slowest_ms)
    chance = by_chance(slower, sum(turn.requests for turn in turns))
    assert bool(told) is (median(ours) > bound and chance <= 0.01)
    unclear = [text for text in lend_result.sentences(scene) if "more turns tell" in text]
    assert bool(unclear) is (median(ours) > bound and chance > 0.01)


@given(st.integers(0, 60), st.integers(0, 60))
def test_slow_requests_come_by_chance_as_often_as_a_binomial_says(slow: int, requests: int) -> None:
    counted = sum(Decimal(math.comb(requests, k)) * Decimal("0.01") ** k * Decimal("0.99") ** (requests - k)
                  for k in range(slow, requests + 1))  # fmt: skip
    assert by_chance(slow, requests) == pytest.approx(float(counted), rel=1e-9, abs=1e-30)


def test_one_turn_of_each_misses_the_p99_only_by_more_than_chance() -> None:
    def scene(slow: int) -> LendScene:
        turn = LendTurn(variant="requests", seconds=4, requests=230, errors=0, p99_ms=23.7, prod_cpu=0.5,
                        free_milli=2000, placed=4, placed_milli=1000, batch_core_seconds=3)  # fmt: skip
        slowest = (36.0,) * slow + (20.0,) * (20 - slow)
        ours = turn.model_copy(update={"variant": "offers", "p99_ms": 35.8, "slowest_ms": slowest})
        return LendScene(turns=(turn, ours))

    assert not lend_result.not_the_same(scene(3))
    [missed] = lend_result.not_the_same(scene(8))
    assert missed == (
        "lend: prod's median p99 with offers, 35.8 ms, is above 33.4 ms (1.2 x without offers + 5 ms); 8 of 230 "
        "requests took longer, which is by chance in 0.2% of runs"
    )


@given(lends)
def test_lend_fails_when_batch_uses_more_than_was_placed(scene: LendScene) -> None:
    beyond = any(turn.batch_core_seconds > 1.1 * turn.placed_milli / 1000 * turn.seconds for turn in scene.turns)
    assert ("lend: batch used more CPU than was placed" in lend_result.failures(scene)) is beyond


@given(lends)
def test_lend_fails_when_a_pod_is_placed_without_room(scene: LendScene) -> None:
    beyond = any(turn.placed_milli > turn.free_milli for turn in scene.turns)
    without = any(turn.placed for turn in scene.of(lend_result.REQUESTS))
    failed = lend_result.failures(scene)
    assert ("lend: more CPU was placed than there was room for" in failed) is beyond
    assert ("lend: a batch pod was placed without an offer" in failed) is without


@given(st.integers(0, 4000), st.integers(0, 1 << 32), st.integers(0, 20), st.integers(1, 500))
def test_a_placer_stays_within_its_room(cpu: int, memory: int, waiting: int, pod_milli: int) -> None:
    pod = Room(pod_milli, 64 << 20)
    placed = place(Room(cpu, memory), waiting, pod)
    assert 0 <= placed <= waiting
    assert placed * pod.cpu_milli <= cpu
    assert placed * pod.memory_bytes <= memory
    fits_one_more = (placed + 1) * pod.cpu_milli <= cpu and (placed + 1) * pod.memory_bytes <= memory
    assert not (placed < waiting and fits_one_more)


phases = st.builds(
    Phase, name=st.just("x"), seconds=st.just(4.0), requests=st.integers(1, 500), request_rate=st.just(100.0),
    p50_ms=st.floats(1, 50), p99_ms=st.floats(1, 5000), errors=st.integers(0, 2), pressure_mean=st.floats(0, 1),
    pressure_p90=st.floats(0, 1), prod_cpu=st.floats(0, 2), batch_cpu=st.floats(0, 2),
)  # fmt: skip
cpu_turns = st.builds(
    CpuTurn,
    variant=st.sampled_from(cpu_result.VARIANTS),
    phase=phases,
    quota_seconds=st.sampled_from([0.0, 0.0, 1.5]),
    lead_quota_seconds=st.sampled_from([0.0, 0.0, 0.5]),
)
cpus = st.builds(CpuScene, turns=st.lists(cpu_turns, max_size=6).map(tuple), rate=st.just(160.0))


@given(cpus)
def test_cpu_says_the_spreads_of_its_rows_and_no_difference_that_overlaps(scene: CpuScene) -> None:
    found = cpu_result.report(scene)
    assert len(found.rows) == len(scene.turns)
    assert all(len(row) == len(found.columns) for row in found.rows)
    for variant in cpu_result.VARIANTS:
        said = [text for text in found.sentences if text.startswith(f"cpu, {cpu_result.TITLES[variant]}: prod")]
        assert len(said) == bool(scene.of(variant))
        assert all(spread_text(scene.p99s(variant)) in text for text in said)
    for first, second in ((cpu_result.WEIGHTS, cpu_result.PLAIN), (cpu_result.SLACKWATER, cpu_result.WEIGHTS)):
        lower = f"{cpu_result.TITLES[first]} is lower than {cpu_result.TITLES[second]}"
        claims = [text for text in found.sentences if text.startswith("cpu, prod's p99:") and lower in text]
        assert bool(claims) is (side(scene.p99s(first), scene.p99s(second)) == -1)


@given(cpus)
def test_cpu_fails_when_cpu_was_left_idle_in_every_turn(scene: CpuScene) -> None:
    ours, weights = scene.used(cpu_result.SLACKWATER), scene.used(cpu_result.WEIGHTS)
    lost = bool(ours and weights) and max(ours) < min(weights) and median(ours) < 0.95 * median(weights)
    assert any("less than 95% of it" in text for text in cpu_result.failures(scene)) is lost


@given(cpus)
def test_cpu_fails_when_batch_had_any_quota_under_slackwater(scene: CpuScene) -> None:
    had = any(turn.quota_seconds or turn.lead_quota_seconds for turn in scene.of(cpu_result.SLACKWATER))
    assert any("batch had a quota" in text for text in cpu_result.failures(scene)) is had


@given(lends, cpus)
def test_the_pictures_are_well_formed_and_have_a_bar_for_every_turn(lend: LendScene, cpu: CpuScene) -> None:
    for drawn, turns in ((lend_picture.picture(lend), lend.turns), (cpu_picture.picture(cpu), cpu.turns)):
        root = ElementTree.fromstring(drawn)  # noqa: S314 - made by us a line above
        assert len(root.findall("{http://www.w3.org/2000/svg}rect")) == 1 + 2 * len(turns)
        assert "nan" not in drawn


def test_the_seconds_under_a_quota_are_those_between_lowering_and_restoring() -> None:
    changes = [
        ObservedQuotaChange(at, "a", limit) for at, limit in ((9.0, 500), (11.0, None), (12.0, 100), (19.0, None))
    ]
    assert quota_seconds(changes, {"a": None}, 10.0, 14.0) == 3.0
    assert quota_seconds([], {"a": None}, 10.0, 14.0) == 0.0


def test_a_scene_that_this_machine_cannot_show_is_not_measurable() -> None:
    found = LEND.judged(LendScene(left_out="no offer within 20 s"))
    assert found.not_measurable == ("lend: no offer within 20 s",)
    assert found.failures == ()
