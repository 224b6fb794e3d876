"""All offers of a node together: what holds after age and gates too, and that zones go with their node."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from drawn import gates, resources, snapshots, strategies
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.batch import slack
from slackwater.offers.degradation import remaining_share
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.pod_set import ListedPod, PodMeasurement, pod_set
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import NodeSnapshot, PodInput, Zone
from slackwater.offers.strategy import MidMode, Strategy

DYNAMIC = Strategy(mid_mode=MidMode.DYNAMIC, cold_start_holds_request=False)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
NODE = NodeSnapshot(
    Resources(10_000, 10_000),
    Resources(),
    (PodInput("a", "prod", "LS", Resources(4000, 4000), Resources(500, 500), Resources(1000, 1000)),),
    Resources(200, 200),
    zones=tuple(Zone(name, Resources(5000, 5000)) for name in ("node-0", "node-1")),
    node_usage=Resources(700, 700),
)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_node_offers_mid_and_batch_and_its_zones_what_batch_has() -> None:
    offer = decide_node(NODE, DYNAMIC, Gates(), 60)
    assert offer.mid.value == Resources(3000, 3000)
    assert offer.batch.value == Resources(6000 - 200 - 1000 - 3000, 6500 - 200 - 1000 - 3000)
    assert [zone.batch for zone in offer.zones] == [Resources(900, 1150)] * 2
    assert offer.gates().mid_cpu.published == 3000
    uneven = replace(NODE, pods=tuple(replace(pod, request=Resources(4000, 2000)) for pod in NODE.pods))
    assert decide_node(uneven, DYNAMIC, Gates(), 60).mid_share == Resources(3000, 1000)


def test_age_takes_from_mid_batch_and_zones_alike_until_nothing_is_left_anywhere() -> None:
    gates = decide_node(NODE, DYNAMIC, Gates(), 60).gates()
    half = decide_node(replace(NODE, age_seconds=540), DYNAMIC, gates, 60)
    assert (half.mid.value, half.batch.value) == (Resources(1500, 1500), Resources(900, 1150))
    assert [zone.batch for zone in half.zones] == [Resources(450, 575)] * 2
    gone = decide_node(replace(NODE, age_seconds=900), DYNAMIC, half.gates(), 60)
    assert gone.mid.value == gone.batch.value == Resources()
    assert [zone.batch for zone in gone.zones] == [Resources()] * 2


def test_a_lost_node_takes_its_zones_along() -> None:
    gates = decide_node(NODE, DYNAMIC, Gates(), 60).gates()
    lost = decide_node(replace(NODE, lost=True), DYNAMIC, gates, 60)
    assert [zone.batch for zone in lost.zones] == [Resources()] * 2


def test_a_zone_keeps_its_value_while_the_difference_is_small_and_the_node_bears_it() -> None:
    before = {"node-0": Resources(850, 1150), "node-1": Resources(800, 400)}
    offer = decide_node(NODE, DYNAMIC, Gates(), 60, before)
    assert [zone.batch for zone in offer.zones] == [Resources(850, 1150), Resources(900, 1150)]
    more = {"node-0": Resources(950, 1150), "node-1": Resources(800, 400)}  # 950 + 900 > 1800: what is computed counts
    assert decide_node(NODE, DYNAMIC, Gates(), 60, more).zones[0].batch == Resources(900, 1150)
    all_of_it = {"node-0": Resources(850, 1050), "node-1": Resources(950, 1250)}  # 1800 and 2300, as the node
    assert [zone.batch for zone in decide_node(NODE, DYNAMIC, Gates(), 60, all_of_it).zones] == list(all_of_it.values())
    too_much = {"node-0": Resources(850, 1150), "node-1": Resources(950, 1251)}
    found = [zone.batch for zone in decide_node(NODE, DYNAMIC, Gates(), 60, too_much).zones]
    assert found == [Resources(850, 1150), Resources(950, 1150)]  # of memory alone


@given(snapshots, strategies, resources)
def test_zones_that_keep_their_value_are_together_within_their_node(
    node: NodeSnapshot, strategy: Strategy, before: Resources
) -> None:
    offer = decide_node(node, strategy, Gates(), 60, dict.fromkeys("abcd", before))
    total = sum([zone.batch for zone in offer.zones], Resources())
    assert total == total.smaller_of(offer.batch.value)


any_gates = st.builds(Gates, gates, gates, gates, gates)


@given(snapshots, strategies, any_gates, st.integers(0, 10_000))
def test_what_is_published_is_at_most_the_threshold_above_what_the_slack_justifies(
    node: NodeSnapshot, strategy: Strategy, before: Gates, window: int
) -> None:
    offer = decide_node(node, strategy, before, window)
    for resource in ("cpu", "memory"):
        mid, batch = getattr(offer.mid, resource).value, getattr(offer.batch, resource).value
        justified = max(0, slack(resource, node, strategy)) * remaining_share(node, strategy)
        kept = strategy.diff_threshold * (mid + batch)
        assert mid + batch <= justified + kept + 1e-6
        assert min(mid, batch) >= 0


@given(snapshots, strategies)
def test_the_first_offer_is_within_the_slack(node: NodeSnapshot, strategy: Strategy) -> None:
    offer = decide_node(node, strategy, Gates(), 60)
    total = offer.mid.value + offer.batch.value
    assert total.cpu_milli <= max(0, slack("cpu", node, strategy))
    assert total.memory_bytes <= max(0, slack("memory", node, strategy))


def test_a_finished_pods_usage_becomes_nobodys_and_the_offer_does_not_fall() -> None:
    """The pod was measured at 0 s, finished at 5 s, and is in the list of 10 s as finished: the system stays at 200."""
    pods = [ListedPod("job", "prod", "LS", Resources(4000, 0), finished=True)]
    found = pod_set(pods, at(10), [PodMeasurement("job", Resources(3000, 0), "prod")], at(0), at(12))
    assert found.pods == ()
    assert found.as_of == at(0)


def test_a_pod_that_is_gone_from_the_list_holds_its_usage_until_the_next_measurement() -> None:
    found = pod_set([], at(10), [PodMeasurement("job", Resources(3000, 0), "prod")], at(0), at(12))
    assert [(pod.listed, pod.usage, pod.request) for pod in found.pods] == [(False, Resources(3000, 0), Resources())]


def test_a_pod_that_has_just_been_bound_does_not_make_the_offer_jump() -> None:
    """10 cores of 30 requested at once: the offer goes down in steps, and not by more than one step at a time."""
    listed = [ListedPod("new", "prod", "LS", Resources(10_000, 0), bound_at=at(1))]
    node = NodeSnapshot(Resources(30_000, 0), Resources(), (), Resources(200, 0))
    gates, published = Gates(), []
    for seconds in (0, 10, 20, 60, 90, 121, 180):
        pods = pod_set(listed if seconds else [], at(seconds), [], at(0), at(seconds)).pods
        offer = decide_node(replace(node, pods=pods), Strategy(), gates, 60)
        gates, published = offer.gates(), [*published, offer.batch.value.cpu_milli]
    drops = [before - after for before, after in pairwise(published)]
    assert published[0] == 17_800
    assert published[-1] == 7800
    assert all(drop >= 0 for drop in drops)
    assert max(drops) < 5000


def test_a_measured_pod_is_known_by_its_usage_and_age() -> None:
    listed = [ListedPod("new", "prod", "LSE", Resources(1000, 0), bound_at=at(1), numa=(1,))]
    found = pod_set(listed, at(10), [PodMeasurement("new", Resources(30, 0))], at(10), at(12))
    whole = PodInput("new", "prod", "LSE", Resources(1000, 0), Resources(30, 0), numa=(1,), bound_seconds_ago=11)
    assert found.pods == (whole,)
    before_it_came = pod_set(listed, at(0), [PodMeasurement("new", Resources(30, 0))], at(0), at(0))
    assert before_it_came.pods == (replace(whole, bound_seconds_ago=0),)


def test_gates_left_are_those_of_each_offer() -> None:
    gates = Gates(batch_cpu=PublishGate(1900))
    offer = decide_node(NODE, DYNAMIC, gates, 60)
    assert offer.batch.cpu.value == 1900  # within the threshold of 1800
    assert offer.gates().batch_cpu.drifting_since == 60
