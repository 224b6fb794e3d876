"""BE pods evicted by how little of their CPU they get, and by thresholds with lower targets: in the running service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ensurance_scene import reported
from guard_documents import DocumentScene

from slackwater.events.envelope import Event
from slackwater.events.measures import Distribution, Usage
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import QoSClass
from slackwater.resources.kinds.node_qos import NODE_QOS

MEMORY = 8 << 30
"""Of the node."""


def steady(value: int, avg: int | None = None) -> Distribution:
    return Distribution(avg=value if avg is None else avg, max=value, last=value, count=5)


async def under(metric: dict[str, Any], **rule: Any) -> DocumentScene:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    one = {"name": "best-effort", "metricRule": metric, "actionName": "evict"} | rule
    await scene.apply(NODE_QOS, "evicting", {"rules": [one]})
    return scene


async def seen(scene: DocumentScene, limit: int, cpu: int, *, avg: int | None = None, memory: int = 0) -> None:
    """Three BE pods that request a core each, may use `limit` and use `cpu` each; prod uses nothing."""
    await scene.clock.advance(1)
    scene.sequence += 1
    plain = reported(
        scene.sequence, at=scene.clock.now(), pressure=0.0, prod=0, batch={"b1": cpu, "b2": cpu, "b3": cpu}
    )
    pods = tuple(
        replace(one, cpu_limit_milli=limit, usage=Usage(steady(cpu, avg), steady(memory)))
        if one.pod.qos is QoSClass.BE
        else one
        for one in plain.data.pods
    )
    node = Usage(steady(3 * cpu), steady(3 * memory))
    body = plain.data.model_copy(update={"pods": pods, "node_usage": node})
    await scene.guard(Event[UsageReported](**{**dict(plain), "data": body}))


def gone(scene: DocumentScene) -> list[str]:
    return [item.pod_uid for item in scene.intents()[-1].evictions]


SHORTFALL = {"name": "batch_cpu_shortfall", "value": 0.6, "target": 0.5}


async def test_a_pod_below_the_lower_bound_of_satisfaction_is_evicted_up_to_the_upper() -> None:
    scene = await under(SHORTFALL)
    await seen(scene, limit=350, cpu=350)  # 1050 of 3000: 35 % satisfied; up to 50 % are 450 of requests to go
    assert gone(scene) == ["b1"]
    record = scene.records()[-1]
    assert (record.reason, record.result, record.unit) == ("evict_waterline_crossed", 1000, "milli-cores")


@pytest.mark.parametrize(
    ("limit", "cpu", "avg", "expected"),
    [
        (450, 450, None, []),  # 45 % satisfied
        (350, 200, None, []),  # uses less than 90 % of what it may: lacks nothing
        (350, 350, 100, []),  # the window says that it lacked nothing
        (350, 100, 350, []),  # the last sample says so
        (320, 100, None, ["b1"]),  # below a whole core usage says little
    ],
)
async def test_a_satisfied_or_idle_pod_stays(limit: int, cpu: int, avg: int | None, expected: list[str]) -> None:
    scene = await under(SHORTFALL)
    await seen(scene, limit, cpu, avg=avg)
    assert gone(scene) == expected


async def test_so_many_windows_in_a_row() -> None:
    scene = await under(SHORTFALL, avoidanceThreshold=3)
    for expected in ([], [], ["b1"]):
        await seen(scene, limit=300, cpu=300)
        assert gone(scene) == expected


async def test_memory_above_its_threshold_is_released_down_to_a_lower_target() -> None:
    scene = await under({"name": "batch_memory_threshold", "value": "70%", "target": "50%"})
    await seen(scene, limit=2000, cpu=10, memory=MEMORY // 5)
    assert gone(scene) == [], "60 %"
    await seen(scene, limit=2000, cpu=10, memory=MEMORY // 4)  # 75 %: 25 % and a tenth of that have to go
    assert gone(scene) == ["b1", "b2"]


async def test_without_a_target_two_percent_below_the_threshold() -> None:
    scene = await under({"name": "batch_memory_threshold", "value": "70%"})
    await seen(scene, limit=2000, cpu=10, memory=MEMORY // 4)
    assert gone(scene) == ["b1"]
