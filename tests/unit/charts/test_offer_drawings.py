"""Pools side by side and offers over time: what is drawn adds up, stays inside, and tells why."""

from __future__ import annotations

import itertools
import re
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from test_drawings import END, START, assert_inside

from slackwater.charts.offer_chart import ChartUnit, OfferChangeMark, OfferStep, degraded_spans, offer_chart, thinned
from slackwater.charts.pool_chart import PoolLevel, pool_chart, pool_frame, pool_layers
from slackwater.charts.svg import Frame, Scale
from slackwater.charts.units import cores

FRAMES = (Frame(580, 170), Frame(360, 160, left=34, right=6))
UNIT = ChartUnit(cores, 1000.0)
milli = st.integers(0, 200_000)
moments = st.integers(-600, 899).map(lambda second: START + timedelta(seconds=second))
offers = st.lists(
    st.builds(OfferStep, moments, milli, milli, st.sampled_from([None, "old", "lost"])),
    max_size=20,
    unique_by=lambda step: step.at,
).map(lambda found: sorted(found, key=lambda step: step.at))
parts = st.fixed_dictionaries(
    dict.fromkeys(("capacity", "reserve", "prod", "expected", "mid", "borrowed", "batch"), milli)
)


def changes_at(*seconds: float) -> list[OfferChangeMark]:
    return [
        OfferChangeMark(START + timedelta(seconds=s), "offer_changed", f"at {s}", f"/decisions/{s}") for s in seconds
    ]


@given(parts)
def test_the_layers_of_a_pool_touch_and_none_is_lost(amounts: dict[str, int]) -> None:
    layers = pool_layers(**amounts)
    held = (
        amounts["reserve"]
        + max(amounts["prod"], amounts["expected"])
        + amounts["mid"]
        + max(amounts["borrowed"], amounts["batch"])
    )
    assert layers[0].low == 0
    assert all(below.high == above.low for below, above in itertools.pairwise(layers))
    assert sum(layer.amount for layer in layers) == layers[-1].high == max(amounts["capacity"], held)


@given(parts)
def test_no_layer_but_the_exceeding_one_goes_beyond_the_capacity(amounts: dict[str, int]) -> None:
    *inside, over = pool_layers(**amounts)
    assert all(layer.high <= amounts["capacity"] for layer in inside)
    assert (over.name, over.low) == ("over", amounts["capacity"])
    used = amounts["reserve"] + amounts["prod"] + amounts["borrowed"]
    drawn = {layer.name: layer.amount for layer in inside}
    measured = drawn["system"] + drawn["prod"] + drawn["batch"]
    assert measured == min(used, amounts["capacity"]), "what is used is cut last"


@given(st.lists(parts, max_size=6), st.sampled_from([1120.0, 360.0]))
def test_the_picture_of_pools_stays_inside(pools: list[dict[str, int]], width: float) -> None:
    levels = [
        PoolLevel(f"<{place}>", "/nodes?pool=x", amounts["capacity"], pool_layers(**amounts), "said", place % 2 == 0)
        for place, amounts in enumerate(pools)
    ]
    picture = pool_chart(pool_frame(len(levels), width), levels, cores, "pools")
    assert_inside(picture)
    assert "<0>" not in picture


def test_what_exceeds_a_pool_is_drawn_as_exceeding_with_its_number() -> None:
    layers = pool_layers(capacity=1000, reserve=100, prod=900, expected=900, mid=0, borrowed=0, batch=500)
    picture = pool_chart(pool_frame(1, 360), [PoolLevel("p", "/", 1000, layers, "")], cores, "pools")
    assert "0.5 beyond capacity" in picture
    assert "100 %" in picture
    assert "125 %" not in picture


@given(offers, st.sampled_from(FRAMES))
def test_the_picture_of_offers_stays_inside_and_shades_what_was_cautious(found: list[OfferStep], frame: Frame) -> None:
    changes = [
        OfferChangeMark(step.at, "offer_changed", "because", "/decisions/x") for step in found if step.at >= START
    ]
    picture = offer_chart(frame, START, END, found, changes, UNIT, "offers")
    assert_inside(picture)
    assert picture.count('class="caution"') == len(degraded_spans(found, END))


@given(offers)
def test_spans_of_caution_cover_exactly_the_degraded_offers(found: list[OfferStep]) -> None:
    spans = degraded_spans(found, END)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
    for step, following in itertools.zip_longest(found, found[1:]):
        until = following.at if following else END
        covering = [why for begin, end, why in spans if begin <= step.at < until <= end]
        assert covering == ([] if step.degraded is None else [step.degraded])


@given(st.lists(st.integers(0, 900), max_size=40, unique=True).map(sorted))
def test_no_change_is_forgotten_and_marks_do_not_cover_each_other(seconds: list[int]) -> None:
    x = Scale(START.timestamp(), END.timestamp(), 46, 568)
    shown = thinned(changes_at(*seconds), x)
    places = [x(change.at.timestamp()) for change in shown]
    assert all(two - one >= 8 for one, two in itertools.pairwise(places))
    counted = [re.search(r"and (\d+) before", change.label) for change in shown]
    assert len(shown) + sum(int(more[1]) for more in counted if more) == len(seconds)


def test_a_value_is_drawn_until_the_next_one_and_the_last_one_until_now() -> None:
    at = [START + timedelta(seconds=second) for second in (0, 450)]
    steps = [OfferStep(at[0], 4000, 0, None), OfferStep(at[1], 2000, 0, None)]
    frame = Frame(100, 100, left=0, right=0, top=0, bottom=0)
    picture = offer_chart(frame, START, END, steps, [], UNIT, "offers")
    line = re.search(r'<polyline points="([^"]+)" class="edge batchoffer"', picture)
    assert line is not None
    assert [pair.split(",")[0] for pair in line[1].split()] == ["0", "50", "50", "100"]
    assert "midoffer" not in picture, "mid is not drawn while nothing is offered to it"


def test_each_change_links_to_its_record_and_names_its_reason() -> None:
    when: datetime = START + timedelta(seconds=60)
    changes = [OfferChangeMark(when, "offer_degraded", "10:01:00 offer degraded: usage is old", "/decisions/d-1")]
    picture = offer_chart(FRAMES[0], START, END, [OfferStep(when, 1, 1, "usage is old")], changes, UNIT, "offers")
    assert '<a href="/decisions/d-1"><rect' in picture
    assert "flag offer_degraded" in picture
    assert "usage is old</title>" in picture


def test_a_change_whose_record_is_not_known_is_marked_and_leads_nowhere() -> None:
    changes = [
        OfferChangeMark(START, "offer", "first", ""),
        OfferChangeMark(START + timedelta(minutes=5), "offer", "next", "/decisions/d"),
    ]
    until = START + timedelta(minutes=9)
    drawn = offer_chart(Frame(600, 170), START, until, [], changes, ChartUnit(str, 1000.0), "offers")
    assert drawn.count('class="flag offer"') == 2
    assert drawn.count("<a ") == drawn.count('href="/decisions/d"') == 1
