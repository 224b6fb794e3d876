"""What is known of a node, as it is decided from now: predictions while they are young, pods while they settle."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from slackwater.model.quantities import Resources
from slackwater.offers.node import InputSource, KnownPeak, MeasuredUsage, NodeState, with_usage
from slackwater.offers.snapshot import PodInput
from slackwater.offers.snapshots import snapshot_of
from slackwater.offers.strategy import Strategy

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
STRATEGY = Strategy(prediction_max_age_seconds=600, bind_settle_seconds=120)
POD = PodInput("p", "prod", "LS", Resources(2000, 2000), Resources(500, 500))
STATE = NodeState(
    "n",
    capacity=Resources(8000, 8000),
    described_by=InputSource("d", NOON),
    used_by=InputSource("u", NOON),
    window_end=int(NOON.timestamp()),
    pods=(POD,),
    peaks={"p": KnownPeak(Resources(700, 800), True), "elsewhere": KnownPeak(Resources(9000, 9000), False)},
    predicted_by=InputSource("e", NOON),
    prod_peak=Resources(900, 900),
)


def test_a_prediction_counts_while_it_is_young_for_pods_that_are_there_however_long_they_are() -> None:
    young = snapshot_of(STATE, STRATEGY, NOON + timedelta(seconds=600))
    assert young is not None
    assert (young.pods, young.prod_peak) == (
        (replace(POD, predicted=Resources(700, 800), cold=True),),
        Resources(900, 900),
    )
    old = snapshot_of(STATE, STRATEGY, NOON + timedelta(seconds=601))
    assert old is not None
    assert (old.pods, old.prod_peak) == ((POD,), None)


def test_the_time_of_binding_is_recorded_only_while_a_pod_settles() -> None:
    for ago, told in ((119.0, 119.0), (120.0, None), (500.0, None)):
        found = snapshot_of(replace(STATE, pods=(replace(POD, bound_seconds_ago=ago),)), STRATEGY, NOON)
        assert found is not None
        assert found.pods[0].bound_seconds_ago == told


def test_a_system_missing_in_this_window_is_the_last_known_and_marked_so() -> None:
    told = with_usage(
        STATE, MeasuredUsage((), None, Resources(300, 300), STATE.window_end + 60), InputSource("a", NOON)
    )
    assert (told.system, told.system_is_current, told.system_by) == (Resources(300, 300), True, InputSource("a", NOON))
    kept = with_usage(told, MeasuredUsage((), None, None, STATE.window_end + 120), InputSource("b", NOON))
    assert (kept.system, kept.system_is_current, kept.system_by) == (Resources(300, 300), False, InputSource("a", NOON))
    assert kept.informed_at == STATE.window_end + 60


def test_before_the_first_offer_nothing_is_in_force() -> None:
    assert (STATE.batch, STATE.mid, STATE.offers_something) == (Resources(), Resources(), False)
