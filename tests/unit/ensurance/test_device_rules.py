"""Rules over disks, links, pressure of I/O and what lower tiers use: in the service as in an agent that is alone."""

from __future__ import annotations

from typing import Any

import pytest
from ensurance_scene import described, reported
from guard_documents import DocumentScene
from tests.support.clock import EPOCH

from slackwater.agent.domain.disconnected import Machine
from slackwater.agent.domain.limits import ReadLimits
from slackwater.agent.domain.observation import Instant
from slackwater.ensurance.usecases.report_view import partial_view, view_of
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.eviction_completed import EvictionOutcome
from slackwater.events.measures import Pressure
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.model.devices import DiskUse, LinkUse
from slackwater.model.pods import Pod
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.kinds.pod_qos import POD_QOS
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.node_guard import GuardState
from slackwater.waterline.registry.built_in import BUILT_IN

DISKS = (DiskUse("vda", 0.2), DiskUse("vdb", 0.95))
LINKS = (LinkUse("eth0", 100, 300, 1000), LinkUse("eth1", 5000, 10))
PRESSED = Pressure(memory_some_avg=0.03, io_some_avg=0.4)
CALM = Pressure(io_some_avg=0.0)


async def scene_with(metric: dict[str, Any], **rule: Any) -> DocumentScene:
    scene = DocumentScene()
    await scene.open()
    await scene.apply(AVOIDANCE_ACTION, "close", {"coolDownSeconds": 1})
    await scene.apply(NODE_QOS, "gate", {"rules": [{"name": "r", "metricRule": metric, "actionName": "close"} | rule]})
    await scene.without_throttles()
    return scene


async def tell(scene: DocumentScene, **measured: Any) -> None:
    await scene.clock.advance(1)
    scene.sequence += 1
    event = reported(scene.sequence, at=scene.clock.now(), pressure=0.0)
    await scene.guard(event.model_copy(update={"data": event.data.model_copy(update=measured)}))


def closed(scene: DocumentScene) -> bool:
    told = scene.published(NodeSchedulingChanged)
    return bool(told) and told[-1].data.closed


BUSY: tuple[tuple[dict[str, Any], dict[str, Any], bool], ...] = (
    ({"name": "disk_usage_ratio", "value": 0.9}, {"disks": DISKS}, True),
    ({"name": "disk_usage_ratio", "value": 0.9, "selector": {"matchLabels": {"disk": "vda"}}}, {"disks": DISKS}, False),
    ({"name": "network_usage_ratio", "value": "25%"}, {"links": LINKS}, True),
    ({"name": "network_usage_ratio", "value": 0.5}, {"links": LINKS}, False),
    ({"name": "network_usage", "value": "4k"}, {"links": LINKS}, True),
    (
        {"name": "network_usage", "value": "4k", "selector": {"matchLabels": {"direction": "sent"}}},
        {"links": LINKS},
        False,
    ),
    ({"name": "node_io_pressure", "value": 0.3}, {"node_pressure": PRESSED}, True),
    ({"name": "batch_cpu_usage", "value": "0.9"}, {}, True),
    ({"name": "batch_cpu_usage", "value": "1.1"}, {}, False),
    ({"name": "mid_cpu_usage", "value": "0.1"}, {}, False),
)


@pytest.mark.parametrize(("metric", "measured", "expected"), BUSY)
async def test_a_rule_over_a_reading_acts_in_the_service(
    metric: dict[str, Any], measured: dict[str, Any], expected: bool
) -> None:
    scene = await scene_with(metric)
    await tell(scene, **measured)
    assert closed(scene) == expected
    for _ in range(3):
        await tell(
            scene,
            disks=(DiskUse("vda", 0.0),),
            links=(LinkUse("eth0", 0, 0, 1000),),
            node_pressure=Pressure(io_some_avg=0.0),
        )
    assert closed(scene) == (expected and metric["name"] == "batch_cpu_usage"), "batch uses still what it used"


async def test_what_batch_uses_is_held_at_a_waterline_of_its_own() -> None:
    """Exactly as far as the gap: 1000 used, 600 allowed and a tenth of the gap more."""
    scene = await scene_with({"name": "batch_cpu_usage", "value": "600m"}, actionName="lower")
    await scene.apply(AVOIDANCE_ACTION, "lower", {"throttle": {}, "disableScheduling": False})
    everybody = {"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}
    await scene.apply(
        POD_QOS, "default", {"scopeSelector": {"matchExpressions": [everybody]}, "allowedActions": ["lower"]}
    )
    await scene.report(0.0)
    assert scene.limits() == {"b1": 1000 - 440}


async def test_the_relief_is_that_of_the_series_that_the_rule_selects() -> None:
    """Another disk may be busier all the time: it says nothing about what an eviction brought."""
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions(blanketEvictions=1)
    metric = {"name": "disk_usage_ratio", "value": 0.9, "selector": {"matchLabels": {"disk": "vda"}}}
    await scene.apply(NODE_QOS, "evicting", {"rules": [{"name": "r", "metricRule": metric, "actionName": "evict"}]})
    await tell(scene, disks=(DiskUse("vda", 0.95), DiskUse("vdb", 0.97)))
    await scene.ended(EvictionOutcome.TERMINATED)
    await tell(scene, disks=(DiskUse("vda", 0.2), DiskUse("vdb", 0.97)))
    (effect,) = scene.published(EffectMeasured)
    assert (effect.data.before, effect.data.after, effect.data.relieved) == (0.95, 0.2, True)
    assert scene.cache.standing("default").state.missed_in_a_row == 0


async def test_a_waterline_that_is_crossed_when_it_is_reached_is_not_relieved_while_it_is_reached() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    metric = {"name": "batch_cpu_threshold", "value": 0.6, "target": 0.5}
    await scene.apply(NODE_QOS, "evicting", {"rules": [{"name": "r", "metricRule": metric, "actionName": "evict"}]})
    await scene.report(0.0, prod=500, batch={"b1": 700})
    await scene.ended(EvictionOutcome.TERMINATED)
    await scene.report(0.0, prod=1200, batch={})
    (effect,) = scene.published(EffectMeasured)
    assert (effect.data.before, effect.data.after, effect.data.relieved) == (0.6, 0.6, False)


def read(view: NodeReadings) -> dict[str, list[tuple[float, dict[str, str]]]]:
    """Every series of every metric that needs no pods, and of those over tiers."""
    names = ("disk_usage_ratio", "network_usage", "network_usage_ratio", "node_io_pressure", "node_memory_pressure",
             "batch_cpu_usage", "mid_cpu_usage", "node_cpu_usage", "node_memory_usage_ratio")  # fmt: skip
    found = {}
    for name in names:
        metric = BUILT_IN.get(name)
        assert metric is not None
        found[name] = [(float(one.value), dict(one.labels)) for one in metric.read(view)]
    return found


async def test_an_agent_that_is_alone_reads_what_the_service_reads() -> None:
    scene = DocumentScene()
    await scene.open()
    event = reported(1, at=scene.clock.now(), pressure=0.1, prod=500, batch={"b1": 700})
    report = event.data.model_copy(update={"disks": DISKS, "links": LINKS, "node_pressure": PRESSED})
    guarded = scene.cache.node("n1")
    assert guarded is not None
    service = view_of(report, guarded)
    pods: list[Pod] = [one.pod for one in report.pods]
    instant = Instant(
        1200,
        0.1,
        0,
        {one.pod.uid: (one.usage.cpu_milli.last, 0) for one in report.pods},
        node_memory_pressure=0.03,
        node_io_pressure=0.4,
        disks=DISKS,
        links=LINKS,
    )

    facts = described(at=scene.clock.now()).data.facts
    limits: dict[str, tuple[int | None, int | None]] = {one.uid: (None, None) for one in pods}
    alone = Machine(facts).view(instant, scene.clock.now(), pods, ReadLimits(limits), GuardState())
    assert read(alone) == read(service)
    assert read(alone)["batch_cpu_usage"] == [(700.0, {})]
    assert read(alone)["network_usage_ratio"] == [
        (0.1, {"interface": "eth0", "direction": "received"}), (0.3, {"interface": "eth0", "direction": "sent"}),
    ]  # fmt: skip
    assert partial_view(report, guarded).disks == DISKS, "a calm report needs no pods for it"
    for name in ("disk_usage_ratio", "network_usage", "network_usage_ratio", "node_io_pressure"):
        metric = BUILT_IN.get(name)
        assert metric is not None
        assert not metric.needs_pods


def test_a_device_without_speed_has_no_share_and_an_absurd_speed_is_kept_as_a_number() -> None:

    ratio, usage = BUILT_IN.get("network_usage_ratio"), BUILT_IN.get("network_usage")
    assert ratio is not None
    assert usage is not None
    huge = LinkUse("eth0", 10**400, 0, 3)
    view = NodeReadings("n", EPOCH, links=(huge, LinkUse("eth1", 5, 5, 0), LinkUse("eth2", 5, 5)))
    assert [one.labels["interface"] for one in ratio.read(view)] == ["eth0", "eth0"]
    assert len(usage.read(view)) == 6
