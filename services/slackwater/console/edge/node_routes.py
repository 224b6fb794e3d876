"""/v1/nodes, /v1/pods and /v1/workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from slackwater.console.domain.conditions import as_of
from slackwater.console.domain.views import ForecastView, NodeView, PodView, UsagePoint
from slackwater.console.domain.workloads import WorkloadView, workloads_of
from slackwater.console.edge.api_models import Listing
from slackwater.console.edge.pages import USUAL, Continue, Key, Limit, micros, paged
from slackwater.console.edge.parameters import Times
from slackwater.console.edge.query import (
    Label,
    Node,
    NodeName,
    OnlyLiveness,
    OnlyQos,
    OnlyTier,
    Pool,
    Since,
    Until,
    wanted_labels,
)
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import existing_node
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

Throttled = Annotated[bool | None, Query(description="Only pods that are (true) or are not (false) throttled.")]
Workload = Annotated[str | None, Query(description="Only pods of this workload.")]
OnlyNamespace = Annotated[str | None, Query(description="Only workloads of this namespace.")]


def node_router(reads: ReadQueries, times: Times) -> Routes:
    """Routes of nodes, their pods, their reports and their forecasts."""
    router = Routes(prefix="/v1", tags=["nodes"])
    _lists(router, reads, times)
    _workloads(router, reads)
    _histories(router, reads, times)
    return router


def _lists(router: Routes, reads: ReadQueries, times: Times) -> None:
    @router.get("/nodes", role=Role.VIEWER, summary="All nodes by name, with their last report, offer and conditions")
    async def list_nodes(
        pool: Pool = None,
        liveness: OnlyLiveness = None,
        label: Label = None,
        limit: Limit = USUAL,
        continue_: Continue = None,
    ) -> Listing[NodeView]:
        labels = wanted_labels(label)
        nodes = [
            node
            for node in await reads.nodes()
            if pool in (None, node.facts.pool if node.facts else "")
            and (liveness is None or node.liveness == liveness)
            and all(_has(node, name, value) for name, value in labels)
        ]
        page = paged(nodes, lambda node: (node.name,), continue_, limit, "nodes")
        now = times.at(None)
        return page.model_copy(update={"items": [as_of(node, now) for node in page.items]})

    @router.get("/nodes/{name}", role=Role.VIEWER, summary="One node")
    async def get_node(name: NodeName) -> NodeView:
        return as_of(await existing_node(reads, name), times.at(None))

    @router.get("/nodes/{name}/pods", role=Role.VIEWER, summary="The pods of a node as last reported, by tier and name")
    async def list_node_pods(
        name: NodeName, tier: OnlyTier = None, limit: Limit = USUAL, continue_: Continue = None
    ) -> Listing[PodView]:
        await existing_node(reads, name)
        pods = [pod for pod in await reads.pods(name) if tier in (None, pod.tier)]
        return paged(pods, _pod_key, continue_, limit, "pods")

    @router.get("/pods", role=Role.VIEWER, summary="All pods as last reported, by node, tier and name")
    async def list_pods(
        node: Node = None,
        pool: Pool = None,
        tier: OnlyTier = None,
        qos: OnlyQos = None,
        workload: Workload = None,
        throttled: Throttled = None,
        limit: Limit = USUAL,
        continue_: Continue = None,
    ) -> Listing[PodView]:
        inside = None if pool is None else await in_pool(reads, pool)
        pods = [
            pod
            for pod in await reads.pods(node)
            if tier in (None, pod.tier)
            and qos in (None, pod.qos)
            and workload in (None, pod.workload)
            and throttled in (None, pod.throttled)
            and (inside is None or pod.node in inside)
        ]
        return paged(pods, _pod_key, continue_, limit, "pods")


def _workloads(router: Routes, reads: ReadQueries) -> None:
    @router.get("/workloads", role=Role.VIEWER, summary="Pods summed by namespace, workload and tier, in this order")
    async def list_workloads(
        node: Node = None,
        pool: Pool = None,
        tier: OnlyTier = None,
        namespace: OnlyNamespace = None,
        limit: Limit = USUAL,
        continue_: Continue = None,
    ) -> Listing[WorkloadView]:
        inside = None if pool is None else await in_pool(reads, pool)
        pods = [
            pod
            for pod in await reads.pods(node)
            if tier in (None, pod.tier)
            and namespace in (None, pod.namespace)
            and (inside is None or pod.node in inside)
        ]
        return paged(workloads_of(pods), _workload_key, continue_, limit, "workloads")


def _histories(router: Routes, reads: ReadQueries, times: Times) -> None:
    @router.get("/nodes/{name}/usage", role=Role.VIEWER, summary="The reports of a node, oldest first")
    async def list_usage(
        name: NodeName, since: Since = None, until: Until = None, limit: Limit = USUAL, continue_: Continue = None
    ) -> Listing[UsagePoint]:
        await existing_node(reads, name)
        points = await reads.usage(name, *times.span(since, until))
        return paged(points, lambda point: (micros(point.sampled_at), point.event_id), continue_, limit, "usage")

    @router.get("/nodes/{name}/forecast", role=Role.VIEWER, summary="The predicted peaks of a node, oldest first")
    async def list_forecasts(
        name: NodeName, since: Since = None, until: Until = None, limit: Limit = USUAL, continue_: Continue = None
    ) -> Listing[ForecastView]:
        await existing_node(reads, name)
        forecasts = sorted(await reads.forecasts(name, *times.span(since, until)), key=_forecast_key)
        return paged(forecasts, _forecast_key, continue_, limit, "forecast")


async def in_pool(reads: ReadQueries, pool: str) -> frozenset[str]:
    """The names of the nodes of a pool."""
    nodes: Sequence[NodeView] = await reads.nodes()
    return frozenset(node.name for node in nodes if node.facts is not None and node.facts.pool == pool)


def _has(node: NodeView, name: str, value: str | None) -> bool:
    labels = node.facts.labels if node.facts else {}
    return name in labels and value in (None, labels[name])


def _pod_key(pod: PodView) -> Key:
    return (pod.node, pod.tier, pod.name, pod.uid)


def _workload_key(workload: WorkloadView) -> Key:
    return (workload.namespace, workload.name, workload.tier)


def _forecast_key(forecast: ForecastView) -> Key:
    return (micros(forecast.predicted_at), forecast.event_id)
