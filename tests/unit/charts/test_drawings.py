"""Geometry: stacks add up, nothing leaves its picture, and text cannot become markup."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree  # our own drawings are parsed, nothing foreign

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.charts import axes, svg
from slackwater.charts.bars import share_bar, tank, waterfall_bar, waterfall_range
from slackwater.charts.level_chart import LevelSample, level_chart, runs, thinned, with_steps
from slackwater.charts.line_charts import above, forecast_chart, limit_lane, pressure_chart
from slackwater.charts.marks import ChartMark
from slackwater.charts.stacks import LAYERS, stacked, water_level
from slackwater.charts.svg import Frame, Scale

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
END = START + timedelta(minutes=15)
FRAMES = (Frame(880, 240), Frame(360, 180, left=34, right=6))

milli = st.integers(0, 200_000)
usages = st.dictionaries(st.sampled_from(LAYERS), milli)
moments = st.integers(0, 900).map(lambda second: START + timedelta(seconds=second))
samples = st.lists(
    st.builds(LevelSample, moments, usages, st.none() | milli), max_size=25, unique_by=lambda sample: sample.at
).map(lambda found: sorted(found, key=lambda sample: sample.at))
series = st.lists(st.tuples(moments, st.floats(0, 1)), max_size=25, unique_by=lambda pair: pair[0]).map(sorted)
changes = st.lists(st.integers(-100_000, 100_000), min_size=1, max_size=12)


def bounds_of(picture: str) -> list[tuple[float, float, float, float]]:
    """(left, top, right, bottom) of every mark."""
    found = []
    for element in ElementTree.fromstring(picture).iter():  # noqa: S314 - our own drawing
        number = {name: float(value) for name, value in element.attrib.items() if re.fullmatch(r"-?[\d.]+", value)}
        match element.tag:
            case "rect":
                found.append((number["x"], number["y"], number["x"] + number["width"], number["y"] + number["height"]))
            case "line":
                xs, ys = sorted((number["x1"], number["x2"])), sorted((number["y1"], number["y2"]))
                found.append((xs[0], ys[0], xs[1], ys[1]))
            case "polygon" | "polyline":
                pairs = [tuple(map(float, pair.split(","))) for pair in element.attrib["points"].split()]
                xs, ys = sorted(x for x, _ in pairs), sorted(y for _, y in pairs)
                found.append((xs[0], ys[0], xs[-1], ys[-1]))
            case "text":
                found.append((number["x"], number["y"], number["x"], number["y"]))
    return found


def assert_inside(picture: str) -> None:
    """No mark of the picture lies outside its viewBox."""
    width, height = map(float, ElementTree.fromstring(picture).attrib["viewBox"].split()[2:])  # noqa: S314 - ours
    for left, top, right, bottom in bounds_of(picture):
        assert left >= -0.01
        assert top >= -0.01
        assert right <= width + 0.01
        assert bottom <= height + 0.01


@given(usages, st.none() | milli, milli)
def test_the_layers_of_a_water_level_touch_and_reach_the_larger_of_capacity_and_usage(
    used: dict[str, int], offered: int | None, capacity: int
) -> None:
    layers = water_level(used, offered, capacity)
    assert layers[0].low == 0
    assert all(below.high == above.low for below, above in itertools.pairwise(layers))
    assert layers[-1].high == max(capacity, sum(used.values()))
    assert {layer.name: layer.amount for layer in layers if layer.name in used} == used


@given(usages, milli, milli)
def test_the_unused_offer_is_what_the_borrowers_leave_of_it_and_fits_under_the_capacity(
    used: dict[str, int], offered: int, capacity: int
) -> None:
    layers = {layer.name: layer for layer in water_level(used, offered, capacity)}
    borrowed = used.get("batch", 0) + used.get("free", 0)
    free = max(0, capacity - sum(used.values()))
    assert layers["offered"].amount == min(max(0, offered - borrowed), free)


@given(st.lists(usages, min_size=1, max_size=8))
def test_stacked_bands_lie_on_each_other_and_end_at_the_sum(rows: list[dict[str, int]]) -> None:
    bands = stacked(rows, LAYERS)
    for position, row in enumerate(rows):
        column = [band[position] for band in bands]
        assert all(below[1] == above[0] for below, above in itertools.pairwise(column))
        assert column[-1][1] == sum(row.values())


@pytest.mark.parametrize("frame", FRAMES)
@given(found=samples, capacity=milli, marked=st.lists(moments, max_size=4))
def test_a_level_chart_stays_inside_its_picture(
    frame: Frame, found: list[LevelSample], capacity: int, marked: list[datetime]
) -> None:
    marks = [ChartMark(at, "throttle", "a mark", "/decisions/1") for at in marked]
    assert_inside(level_chart(frame, START, END, found, capacity, marks))


@pytest.mark.parametrize("frame", FRAMES)
@given(found=series, waterline=st.none() | st.floats(0, 1))
def test_a_pressure_chart_stays_inside_its_picture(
    frame: Frame, found: list[tuple[datetime, float]], waterline: float | None
) -> None:
    assert_inside(pressure_chart(frame, START, END, found, waterline))


@given(series, series)
def test_a_forecast_chart_stays_inside_its_picture(
    actual: list[tuple[datetime, float]], expected: list[tuple[datetime, float]]
) -> None:
    scaled = [[(at, value * 64_000) for at, value in found] for found in (actual, expected)]
    assert_inside(forecast_chart(FRAMES[0], START, END, *scaled))


@given(st.lists(st.tuples(moments, moments, milli), max_size=6))
def test_a_limit_lane_stays_inside_its_picture(found: list[tuple[datetime, datetime, int]]) -> None:
    spans = [(min(a, b), max(a, b), limit) for a, b, limit in found]
    assert_inside(limit_lane(Frame(880, 22, top=0, bottom=0), START, END, spans))


@given(samples)
def test_an_offer_holds_until_the_next_one(found: list[LevelSample]) -> None:
    steps = with_steps(found)
    assert [sample for sample in steps if sample in found] == found
    for before, after in itertools.pairwise(steps):
        assert before.offered == after.offered or (before.at, before.used) == (after.at, after.used)


@given(samples)
def test_runs_hold_every_sample_once_and_are_cut_only_at_gaps(found: list[LevelSample]) -> None:
    parts = runs(found, gap_seconds=30)
    assert [sample for part in parts for sample in part] == found
    for part in parts:
        assert all((b.at - a.at).total_seconds() <= 30 for a, b in itertools.pairwise(part))
    assert all((b[0].at - a[-1].at).total_seconds() > 30 for a, b in itertools.pairwise(parts))


@given(changes)
def test_waterfall_bars_are_seen_and_as_wide_as_what_they_stand_for(values: list[int]) -> None:
    totals = list(itertools.accumulate(values, initial=0))
    low, high = waterfall_range(totals[1:], totals[-1])
    for value, (before, after) in zip(values, itertools.pairwise(totals), strict=True):
        picture = waterfall_bar(before, after, low, high, "gain", "milli")
        assert_inside(picture)
        bar = ElementTree.fromstring(picture).find("rect")  # noqa: S314 - our own drawing
        assert bar is not None
        width = float(bar.attrib["width"])
        if value:
            share = abs(value) / (high - low)
            assert width == pytest.approx(max(1.0, share * 236), abs=0.05)
        else:
            assert width == 0


@given(usages, milli, milli)
def test_a_tank_is_filled_from_end_to_end(used: dict[str, int], offered: int, capacity: int) -> None:
    layers = water_level(used, offered, capacity)
    picture = tank(layers, capacity)
    assert_inside(picture)
    if layers[-1].high:
        widths = sum(right - left for left, _, right, _ in bounds_of(picture))
        assert widths == pytest.approx(200, abs=0.1)


@given(st.floats(0, 1))
def test_a_share_bar_stays_inside_its_picture(value: float) -> None:
    assert_inside(share_bar(value, "gain"))


@given(st.floats(0.001, 1e9))
def test_ticks_are_round_start_at_zero_and_stay_below_the_top(high: float) -> None:
    found = axes.ticks(high)
    assert found[0] == 0
    assert found[-1] <= high * (1 + 1e-6)
    assert 2 <= len(found) <= 6


@given(st.floats(0.001, 1e9))
def test_a_ceiling_is_never_below_the_value_and_not_far_above(value: float) -> None:
    assert value <= axes.ceiling(value) * (1 + 1e-9)
    assert axes.ceiling(value) <= max(1.0, value * 1.6)


@given(moments, st.integers(1, 400_000), st.integers(1, 8))
def test_times_of_an_axis_lie_in_the_window_and_are_few(since: datetime, seconds: int, most: int) -> None:
    until = since + timedelta(seconds=seconds)
    found = axes.times(since, until, most)
    assert len(found) <= most + 1
    assert all(since <= moment <= until for moment in found)


def test_text_cannot_become_markup() -> None:
    nasty = "<script>alert('\"&')</script>"
    mark = ChartMark(START, "evict", nasty, '/decisions/"><b>')
    pictures = [svg.text(0, 0, nasty), level_chart(FRAMES[0], START, END, [], 1000, [mark], label=nasty)]
    assert not any("<script" in picture or "<b>" in picture for picture in pictures)


def test_what_was_above_the_forecast_of_its_time_stands_out() -> None:
    at = [START + timedelta(seconds=5 * number) for number in range(6)]
    actual = [(moment, value) for moment, value in zip(at, (9.0, 5.0, 7.0, 8.0, 8.0, 6.0), strict=True)]
    expected = [(at[1], 6.0), (at[4], 8.0)]
    assert above(actual, expected) == [[(*actual[2], 6.0), (*actual[3], 6.0)]]
    assert forecast_chart(FRAMES[0], START, END, actual, expected).count("edge over") == 1
    assert "edge over" not in forecast_chart(FRAMES[0], START, END, actual, [])


def test_what_was_below_the_forecast_in_between_is_not_drawn_over() -> None:
    at = [START + timedelta(seconds=5 * number) for number in range(4)]
    actual = [(moment, value) for moment, value in zip(at, (7.0, 5.0, 7.0, 5.0), strict=True)]
    runs = above(actual, [(at[0], 6.0)])
    assert runs == [[(*actual[0], 6.0)], [(*actual[2], 6.0)]]
    drawn = forecast_chart(FRAMES[0], START, END, actual, [(at[0], 6.0)])
    assert drawn.count("edge over") == 2, "each rises from what was expected to what came"


def test_in_a_sum_over_nodes_what_runs_beyond_offers_leaves_other_offers_unused() -> None:
    """One node borrows 2 of 5, another uses 4 without an offer: 3 are unused, although 6 are used of 5 offered."""
    layers = {layer.name: layer.amount for layer in water_level({"batch": 6}, 5, 16, beyond=4)}
    assert layers["offered"] == 3
    assert layers["margin"] == 16 - 6 - 3


@given(st.lists(st.integers(0, 9), min_size=1, max_size=900))
def test_a_chart_of_many_reports_keeps_the_extremes_and_few_points(usage: list[int]) -> None:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    samples = [LevelSample(start + timedelta(seconds=at), {"batch": used}, None) for at, used in enumerate(usage)]
    kept = thinned(samples, Scale(start.timestamp(), start.timestamp() + 900, 40, 870))
    assert len(kept) <= 2 * 140
    assert kept == sorted(kept, key=lambda sample: sample.at)
    assert {max(usage), min(usage)} <= {sample.used["batch"] for sample in kept}
