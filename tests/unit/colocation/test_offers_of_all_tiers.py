"""Mid, batch and zones in the running use cases: what is published, when, and that every record can be recomputed."""

from __future__ import annotations

import importlib
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from colocation_scene import Colocation
from pydantic import TypeAdapter
from tests.support.windows import START, window

from slackwater.colocation.ports import FollowedStrategy
from slackwater.colocation.usecases.recompute_offer import age_offers, recompute
from slackwater.decisions.reasons import Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.nodes import Liveness
from slackwater.model.quantities import Resources
from slackwater.offers.node import NodeState
from slackwater.offers.strategy import CountingPolicy, MidMode, Strategy

DYNAMIC = Strategy(mid_mode=MidMode.DYNAMIC, mid_cpu_threshold_percent=10, mid_memory_threshold_percent=10)


async def offering(strategy: Strategy = DYNAMIC, zones: int = 2) -> Colocation:
    """8 cores in two zones; one pod of 2 cores is predicted at 700 milli-cores, the system uses 300."""
    colocation = Colocation(strategy)
    await colocation.describe(zones=zones)
    for number in range(3):
        await colocation.measure(number, 500)
        await colocation.predict(number, 700)
    return colocation


def replayed(record: DecisionRecord) -> int:
    module, name = record.replay.function.split(":")
    found: int = getattr(importlib.import_module(module), name)(**record.replay.arguments)
    return found


async def test_a_node_with_a_mid_strategy_offers_mid_batch_and_zones_with_a_record_each() -> None:
    colocation = await offering()
    offer = colocation.offers()[-1]
    assert offer.mid.cpu_milli == 800
    assert offer.batch.cpu_milli == 4800 - 300 - 700 - 800
    assert [(zone.name, zone.batch.cpu_milli) for zone in offer.zones] == [("node0", 1500), ("node1", 1500)]
    assert offer.reason == Reason.OFFER_CHANGED
    assert offer.strategies == ("settings",)
    assert set(offer.decision_ids) == {"batch-cpu", "batch-memory", "mid-cpu", "mid-memory"}
    records = {record.id: record for record in colocation.records()}
    mid = records[offer.decision_ids["mid-cpu"]]
    assert (mid.result, mid.rule, mid.unit) == (800, "dynamic", "milli-cores")
    named = {each.name: each for each in mid.inputs}
    assert named["prod_requests"].value == 2000
    assert named["node_p95"].value == 800
    assert named["mid_threshold"].source == "settings"
    batch = records[offer.decision_ids["batch-cpu"]]
    lent = next(each for each in batch.inputs if each.name == "mid_offered")
    assert (lent.value, lent.source) == (800, mid.id)
    assert batch.rule == "usage"


async def test_where_mid_is_off_it_is_not_published() -> None:
    colocation = await offering(Strategy(), zones=1)
    offer = colocation.offers()[-1]
    assert (offer.mid, offer.zones) == (Resources(), ())
    assert set(offer.decision_ids) == {"batch-cpu", "batch-memory"}


async def test_every_term_of_every_policy_and_mode_names_an_input_that_is_there() -> None:
    for mode in MidMode:
        for policy in CountingPolicy:
            strategy = replace(
                DYNAMIC,
                mid_mode=mode,
                cpu_policy=policy,
                memory_policy=policy,
                batch_cpu_threshold_percent=10,
                mid_static_cpu_reserved_percent=20,
                mid_static_memory_reserved_percent=20,
                mid_unallocated_percent=5,
            )
            colocation = await offering(strategy)
            await colocation.live(Liveness.LOST)
            computed = {"floor", "hysteresis", "off"}
            for record in colocation.records():
                inputs = {each.name for each in record.inputs}
                assert {term.input or term.name for term in record.terms if term.name not in computed} <= inputs
                assert record.alternatives[0].what.split()[0] in ("policy", "all")
                assert replayed(record) == record.result


async def test_a_drop_of_mid_is_published_at_once_and_so_is_the_end_of_mid() -> None:
    colocation = await offering()
    await colocation.measure(3, 1950)  # of prod's 2 cores only 50 milli-cores are left to reclaim
    assert colocation.offers()[-1].mid.cpu_milli == 50
    colocation.follow(Strategy())
    await colocation.measure(4, 1950)
    offer = colocation.offers()[-1]
    assert offer.mid == Resources()
    assert set(offer.decision_ids) == {"batch-cpu", "batch-memory"}


async def test_age_takes_mid_batch_and_zones_away_together() -> None:
    colocation = await offering()
    await colocation.clock.advance(900)
    await age_offers(colocation.offering)
    offer = colocation.offers()[-1]
    assert (offer.batch, offer.mid) == (Resources(), Resources())
    assert [zone.batch for zone in offer.zones] == [Resources(), Resources()]
    assert offer.degraded == "usage is old"


async def test_a_strategy_that_says_the_same_in_another_generation_is_named() -> None:
    colocation = await offering()
    colocation.follow(DYNAMIC, "cluster@2")
    await colocation.measure(3, 500)
    assert colocation.offers()[-1].strategies == ("cluster@2",)
    told = len(colocation.offers())
    await colocation.measure(4, 500)
    assert len(colocation.offers()) == told


async def test_windows_of_which_most_was_lost_do_not_make_usage_any_younger() -> None:
    colocation = await offering()
    for number in range(3, 11):
        await colocation.measure(number, 500, gaps=13)
        await colocation.predict(number, 700)
    offer = colocation.offers()[-1]
    assert offer.degraded == "usage is incomplete"
    assert offer.batch.cpu_milli == pytest.approx(3000 * (900 - 480 - 0) / 720, abs=2)
    await colocation.measure(11, 500)
    assert colocation.offers()[-1].degraded is None
    whole = len(colocation.offers())
    await colocation.measure(12, 500, gaps=3)  # a quarter lost, and that is all
    assert {offer.degraded for offer in colocation.offers()[whole:]} <= {None}


async def test_a_system_that_stays_unknown_takes_the_offer_down_and_is_never_read_as_nothing() -> None:
    colocation = await offering()
    for number in range(3, 18):
        await colocation.measure(number, 500, system=None)
        await colocation.predict(number, 700)
        await age_offers(colocation.offering)
        assert colocation.offers()[-1].batch.cpu_milli <= 3000
    assert colocation.offers()[-1].batch == Resources()
    assert colocation.offers()[-1].degraded == "usage is incomplete"
    measured = [each for record in colocation.records() for each in record.inputs if each.name == "system_p95"]
    assert {each.value for each in measured if each.unit == "milli-cores"} == {300}
    assert measured[-1].observed_at == START + timedelta(minutes=2)


async def test_a_pod_that_was_bound_a_moment_ago_takes_its_request_step_by_step() -> None:
    colocation = await offering(Strategy(rise_windows=1), zones=1)
    before = colocation.offers()[-1].batch.cpu_milli
    for number in (3, 4, 5):
        bound = START + timedelta(minutes=3, seconds=30)
        await colocation.take(window_of(number, {"p": 500, "new": 100}, {"new": bound}, request=2000))
    steps = [before - offer.batch.cpu_milli for offer in colocation.offers()[-3:]]
    assert steps == [500, 1500, 2000]


async def test_a_pod_that_finished_is_gone_with_its_window_and_the_system_does_not_grow() -> None:
    colocation = await offering(Strategy(rise_windows=1), zones=1)
    await colocation.take(window_of(3, {"p": 500, "job": 1500}, {}, request=2000))
    held = colocation.offers()[-1].batch.cpu_milli
    await colocation.take(window_of(4, {"p": 500}, {}, request=2000))
    assert colocation.offers()[-1].batch.cpu_milli == held + 2000
    record = [each for each in colocation.records() if each.subject == "batch-cpu"][-1]
    assert next(term.value for term in record.terms if term.name == "system") == -300


def window_of(number: int, cpu: dict[str, int], started: dict[str, datetime], request: int) -> Event[UsageWindowed]:
    event = window("n", number, cpu)
    pods = tuple(
        replace(each, pod=replace(each.pod, started_at=started.get(each.pod.uid, each.pod.started_at)))
        for each in event.data.pods
    )
    assert {each.pod.request.cpu_milli for each in pods} == {request}
    return event_of(event.data.model_copy(update={"pods": pods}), source="ingestion", time=event.time)


async def test_a_row_from_before_mid_and_zones_reads_well_and_leads_to_no_news() -> None:
    colocation = await offering(Strategy(), zones=1)
    old = {
        *("node", "capacity", "reserved", "described_by", "lost", "liveness_by", "pods", "system", "system_is_current"),
        *("window_end", "used_by", "peaks", "predicted_by", "cpu", "memory", "generation", "degraded", "pool"),
    }
    rows = TypeAdapter(NodeState)
    written = rows.dump_python(colocation.store.states["n"], mode="json")
    row = {name: value for name, value in written.items() if name in old}
    state = rows.validate_python(row)
    assert state.informed_at == state.window_end
    after, events = recompute(state, FollowedStrategy(Strategy(), ("cluster@1",)), colocation.clock.now(), None)
    assert events == []
    assert after.strategies == ("cluster@1",)
    assert after.due_at == after.window_end + 180
