"""A record can be checked with a pocket calculator: reading, waterline, gap, releases by pod, and what remains."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ensurance_scene import Scene, reported
from guard_documents import DocumentScene
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.decisions.record import DecisionRecord, Input
from slackwater.events.measures import Distribution
from slackwater.resources.kinds.node_qos import NODE_QOS

CROWDS = st.dictionaries(st.sampled_from([f"b{number}" for number in range(6)]), st.integers(0, 340), min_size=1)


def inputs(record: DecisionRecord) -> Mapping[str, Input]:
    return {one.name: one for one in record.inputs}


def number(record: DecisionRecord, name: str) -> float:
    value = inputs(record)[name].value
    assert isinstance(value, int | float)
    return value


def lacking_by_hand(record: DecisionRecord) -> float:
    """As the record's own words say it."""
    said = "computed: min(capacity, prod_usage / (1 - min(reading, 0.9))) - prod_usage"
    assert inputs(record)["lacking"].source == said
    used, reading = number(record, "prod_usage"), number(record, "prod_cpu_pressure")
    return min(number(record, "capacity"), used / (1 - min(reading, 0.9))) - used


def check(record: DecisionRecord, pods: set[str]) -> None:
    """Every step of a throttle or an eviction."""
    assert number(record, "prod_cpu_pressure") > number(record, "waterline")
    assert abs(number(record, "lacking") - lacking_by_hand(record)) <= 1
    assert abs(number(record, "gap") - (1 + number(record, "excess_ratio")) * number(record, "lacking")) <= 1
    credited = number(record, "credited") if "credited" in inputs(record) else 0
    left = number(record, "gap") - credited - sum(term.value for term in record.terms)
    assert abs(record.remaining - max(0, left)) <= len(record.terms) + 1
    known = {one.pod_uid: one.keys for one in (*record.actions, *record.alternatives) if one.keys}
    assert all(len(keys) == len(record.order.split(", ")) - 1 for keys in known.values())
    chosen = [action.keys for action in record.actions]
    assert chosen == sorted(chosen)
    seen = [one.pod_uid for one in (*record.actions, *record.alternatives) if one.pod_uid]
    assert sorted(seen) == sorted(pods), "every pod of the node, chosen or spared, once"
    assert all(one.namespace == "default" for one in (*record.actions, *record.alternatives) if one.pod_uid)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.11, 1.0), st.integers(1, 1900), CROWDS)
def test_a_throttle_can_be_redone_by_hand(pressure: float, prod: int, batch: dict[str, int]) -> None:
    async def story() -> None:
        scene = await Scene().open()
        await scene.report(pressure, prod=prod, batch=batch)
        for record in scene.records():
            check(record, {"p1", *batch})
            for term, action in zip(record.terms, record.actions, strict=True):
                used, after = batch[action.pod_uid], action.cpu_limit_after_milli
                assert after is not None
                assert term.note == f"uses {used}, limit none -> {after}"
                assert abs(term.value - (used - after)) <= 1

    asyncio.run(story())


@settings(max_examples=40, deadline=None)
@given(st.floats(0.11, 0.8), st.integers(1, 1900), CROWDS)
def test_an_eviction_can_be_redone_by_hand(pressure: float, prod: int, batch: dict[str, int]) -> None:
    async def story() -> None:
        scene = DocumentScene()
        await scene.open()
        await scene.allow_evictions()
        await scene.report(pressure, prod=prod, batch=batch)
        for record in scene.records():
            check(record, {"p1", *batch})
            for term, action in zip(record.terms, record.actions, strict=True):
                assert (term.value, term.note, action.evicted) == (batch[action.pod_uid], "evicted", True)

    asyncio.run(story())


async def test_pending_effects_are_recorded_as_credit() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    await scene.report(0.2, batch={"b1": 300, "b2": 200})
    await scene.report(0.3, batch={"b1": 300, "b2": 200})
    first, second = scene.records()
    assert "credited" not in inputs(first)
    assert (number(second, "credited"), second.result) == (300, 200)
    assert inputs(second)["credited"].source.startswith("computed: evictions under way")


def using(value: str, **more: object) -> dict[str, object]:
    metric = {"name": "node_cpu_usage", "value": value}
    return {"name": f"above-{value.replace('.', '-')}", "metricRule": metric, "actionName": "throttle", **more}


async def test_the_record_has_the_number_of_samples_in_a_row() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.apply(NODE_QOS, "patient", {"rules": [using("1", avoidanceThreshold=3)]})
    for _ in range(3):
        await scene.report(0.0, prod=200, batch={"b1": 1500})
    (record,) = scene.records()
    found = inputs(record)
    assert (found["samples_above"].value, found["samples_above"].source) == ("3 of 3", "rule above-1")
    assert (found["lacking"].value, found["lacking"].source) == (700, "computed: reading - target")
    assert (found["gap"].value, found["waterline"].value) == (770, 1000)


async def test_the_rule_with_the_largest_gap_is_recorded() -> None:
    scene = DocumentScene()
    await scene.open()
    for name, value in (("a-lax", "1.5"), ("strict", "1")):
        await scene.apply(NODE_QOS, name, {"rules": [using(value)]})
    await scene.report(0.0, prod=200, batch={"b1": 1600})
    (record,) = scene.records()
    assert (number(record, "waterline"), number(record, "gap")) == (1000, 880)


async def test_a_restore_records_what_may_rise_and_by_which_formula() -> None:
    scene = await Scene().open()
    await scene.report(0.5, prod=1000, batch={"b1": 600, "b2": 300})
    await scene.confirm()
    taken = scene.limits()
    for _ in range(20):
        await scene.report(0.0, prod=100, batch=taken)
        if scene.records()[-1].kind == "restore":
            break
    record = scene.records()[-1]
    assert record.kind == "restore"
    assert number(record, "idle") == number(record, "capacity") - number(record, "node_usage")
    assert number(record, "busiest") >= number(record, "node_usage")
    assert number(record, "prod_demand") == 1000, "what it used at the trigger, and not what its pressure made of it"
    assert number(record, "may_rise") == number(record, "capacity") // 2
    found = inputs(record)
    assert found["may_rise"].source.startswith("computed: prod's demand is gone: 0.5 x capacity")
    assert found["samples_calm"].unit == "in a row"
    assert number(record, "since_last_trigger") > 0
    assert record.order.endswith("uid")
    assert all(action.keys for action in record.actions)


async def test_idle_cpu_that_goes_back_is_what_the_record_says_of_the_busiest_sample() -> None:
    """A busy sample that is older than those which count is in neither."""
    scene = await Scene().open()
    await scene.report(0.5, prod=900, batch={"b1": 1100})
    await scene.confirm()
    taken = scene.limits()
    for prod in (1800, 1300, 1300, 1300, 1300):
        await scene.report(0.0, prod=prod, batch=taken)
        if scene.records()[-1].kind == "restore":
            break
    record = scene.records()[-1]
    assert record.kind == "restore"
    capacity, busiest = number(record, "capacity"), number(record, "busiest")
    source = inputs(record)["may_rise"].source
    assert source.startswith("computed: (capacity - busiest - 0.05 x capacity")
    assert number(record, "may_rise") == capacity - busiest - capacity // 20
    assert number(record, "busiest") == number(record, "node_usage")
    assert -sum(term.value for term in record.terms) == number(record, "may_rise")


async def test_memory_is_recorded_in_bytes_with_the_size_of_the_node() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    metric = {"name": "node_memory_usage_ratio", "value": 0.5}
    await scene.apply(NODE_QOS, "evicting", {"rules": [{"name": "full", "metricRule": metric, "actionName": "evict"}]})
    await scene.clock.advance(1)
    full = Distribution(last=6 << 30, max=6 << 30, avg=6 << 30, count=1)
    event = reported(1, at=scene.clock.now(), pressure=0.0, batch={"b1": 10})
    data = event.data
    changed = {
        "node_usage": replace(data.node_usage, memory_bytes=full),
        "pods": tuple(replace(one, usage=replace(one.usage, memory_bytes=full)) for one in data.pods),
    }
    await scene.guard(event.model_copy(update={"data": data.model_copy(update=changed)}))
    (record,) = scene.records()
    found = inputs(record)
    assert (found["capacity_memory"].value, found["capacity_memory"].unit) == (8 << 30, "bytes")
    assert found["lacking"].source == "computed: (reading - target) x capacity_memory"
    assert (found["lacking"].value, found["lacking"].unit) == (2 << 30, "bytes")


async def pressed_and_full(waterline: int) -> DecisionRecord:
    """Two may go: prod lacks 1100 milli-cores, and of 150 kB of memory only so much may be used."""
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions(nodeEvictionsPerCycle=2)
    rule = {"name": "full", "metricRule": {"name": "node_memory_usage", "value": waterline}, "actionName": "evict"}
    await scene.apply(NODE_QOS, "memory", {"rules": [rule]})
    await scene.clock.advance(1)
    event = reported(1, at=scene.clock.now(), pressure=0.8, batch={"a": 100, "b": 50, "c": 20})
    data, used = event.data, {"p1": 1, "a": 100_000, "b": 2, "c": 50_000}
    changed = {
        "node_usage": replace(data.node_usage, memory_bytes=Distribution(last=150_003, count=1)),
        "pods": tuple(
            replace(one, usage=replace(one.usage, memory_bytes=Distribution(last=used[one.pod.uid], count=1)))
            for one in data.pods
        ),
    }
    await scene.guard(event.model_copy(update={"data": data.model_copy(update=changed)}))
    (record,) = scene.records()
    return record


async def test_of_two_metrics_the_one_that_stays_open_is_recorded() -> None:
    record = await pressed_and_full(100_000)
    assert [one.pod_uid for one in record.actions] == ["a", "b"]
    assert (record.rule, record.unit, record.result) == ("last-resort", "milli-cores", 150)
    assert (record.remaining, record.remaining_because) == (950, "no more than 2 evictions in one cycle")
    check(record, {"p1", "a", "b", "c"})


async def test_of_two_metrics_all_keys_are_of_the_recorded_order_and_the_other_gap_is_recorded_too() -> None:
    record = await pressed_and_full(100)
    assert (record.rule, record.unit, "more memory used" in record.order) == ("full", "bytes", True)
    keys = {one.pod_uid: one.keys[3] for one in (*record.actions, *record.alternatives) if one.keys}
    assert keys == {"a": -100_000, "b": -2, "c": -50_000}
    assert record.terms[1].note == "evicted for prod_cpu_pressure, also 50 of prod_cpu_pressure"
    open_too = inputs(record)["remaining of prod_cpu_pressure"]
    assert (open_too.value, open_too.unit) == (950, "milli-cores")
    assert open_too.source == "computed: no more than 2 evictions in one cycle"
