"""Workloads are the pods of one namespace, name and tier: every pod counts once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx2
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.console.domain.views import PodView
from slackwater.console.domain.workloads import workloads_of
from slackwater.model.quantities import Resources

POD = PodView(
    uid="u",
    name="web-0",
    namespace="shop",
    node="n1",
    workload="web",
    tier="prod",
    qos="LS",
    priority=9500,
    request=Resources(1000, 1024),
    usage=Resources(300, 512),
    cpu_p95_milli=400,
    cpu_pressure=None,
    throttled_ratio=None,
    cpu_limit_milli=None,
    original_cpu_limit_milli=None,
    throttled=False,
    started_at=EPOCH,
    reported_at=EPOCH,
)
PODS = st.lists(
    st.builds(
        lambda namespace, workload, tier, node, cpu, pressure, throttled, age: replace(
            POD,
            namespace=namespace,
            workload=workload,
            tier=tier,
            node=node,
            request=Resources(cpu, cpu * 2),
            usage=Resources(cpu // 2, cpu),
            cpu_p95_milli=cpu,
            cpu_pressure=pressure,
            throttled=throttled,
            reported_at=EPOCH + timedelta(seconds=age),
        ),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from(["prod", "batch"]),
        st.sampled_from(["n1", "n2", "n3"]),
        st.integers(0, 8000),
        st.none() | st.floats(0, 1),
        st.booleans(),
        st.integers(0, 100),
    ),
    max_size=30,
)


@given(PODS)
def test_every_pod_counts_once(pods: list[PodView]) -> None:
    workloads = workloads_of(pods)
    keys = [(each.namespace, each.name, each.tier) for each in workloads]
    assert keys == sorted({(pod.namespace, pod.workload, pod.tier) for pod in pods})
    assert sum(each.pods for each in workloads) == len(pods)
    assert sum(each.throttled_pods for each in workloads) == sum(pod.throttled for pod in pods)
    nothing = Resources()
    assert sum((each.request for each in workloads), nothing) == sum((pod.request for pod in pods), nothing)
    assert sum((each.usage for each in workloads), nothing) == sum((pod.usage for pod in pods), nothing)


@given(PODS)
def test_a_workload_has_the_extremes_of_its_pods(pods: list[PodView]) -> None:
    for each in workloads_of(pods):
        own = [pod for pod in pods if (pod.namespace, pod.workload, pod.tier) == (each.namespace, each.name, each.tier)]
        assert each.nodes == len({pod.node for pod in own}) <= each.pods
        assert each.cpu_p95_milli == max(pod.cpu_p95_milli for pod in own)
        assert each.reported_at == min(pod.reported_at for pod in own)
        measured = [pod.cpu_pressure for pod in own if pod.cpu_pressure is not None]
        assert each.cpu_pressure == (max(measured) if measured else None)


async def _answer(client: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    response = await client.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_list_agrees_with_the_pods_and_has_pages(told_client: httpx2.AsyncClient) -> None:
    pods = (await _answer(told_client, "/v1/pods"))["items"]
    items = (await _answer(told_client, "/v1/workloads"))["items"]
    assert sum(item["pods"] for item in items) == len(pods)
    assert {item["name"] for item in items} == {pod["workload"] for pod in pods}
    page = await _answer(told_client, "/v1/workloads", limit=1)
    rest = await _answer(told_client, "/v1/workloads", **{"continue": page["continue"]})
    assert page["items"] + rest["items"] == items


async def test_the_list_has_filters(told_client: httpx2.AsyncClient) -> None:
    batch = (await _answer(told_client, "/v1/workloads", tier="batch", node="edge-7"))["items"]
    assert batch
    assert {(item["tier"], item["nodes"]) for item in batch} == {("batch", 1)}
    assert (await _answer(told_client, "/v1/workloads", namespace="nowhere"))["items"] == []
    assert (await _answer(told_client, "/v1/workloads", pool="nowhere"))["items"] == []
