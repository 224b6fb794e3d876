"""The loop in a Kubernetes cluster: from usage to the status of nodes, scheduling by it, and evictions when it is gone.

A real control plane (`make kubernetes`), nodes that kwok plays, simulated agents that report what runs there, and the
services as separate processes.

    settled     from the report that ends a window until a watch of nodes shows the offer that it caused
    scheduled   the stock scheduler places pods that ask for lent resources; one that asks for more than its node has
                stays Pending, with the scheduler's reason
    collapse    on some nodes prod takes the memory: batch is evicted through the Eviction API, decided from the lowest
                priority of a node up, and never more of an app than its PodDisruptionBudget allows
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.aio.msg import Msg
from tests.bench.control_plane import ControlPlane, control_plane
from tests.bench.figures import spread
from tests.bench.freshness import RESTLESS, SETTINGS, JudgedReports, Seen, delays, stages_of, watching
from tests.bench.load.agents import GIB, POOL, SIZE, SYSTEM_BYTES, SimulatedAgents
from tests.bench.verdict import Scale, Target
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import running
from tests.kubernetes.definitions import in_force
from tests.kubernetes.drivers import real_driver
from tests.kubernetes.kwok import (
    CPU,
    MEMORY,
    PARTS,
    PRIORITIES,
    PROGRAMS,
    KwokCluster,
    batch_pod,
    kwok_cluster,
    prod_pod,
)
from tests.kubernetes.rest import Rest

from slackwater.apiserver.records import NODES, PodRecord
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.kubernetes.adapters.http_documents import HttpDocuments
from slackwater.resources.catalog import kind_named

TARGET_P99_SECONDS, TARGET_MEMORY_MB = 3.0, 250.0
SERVICES = ("ingestion", "prediction", "colocation", "ensurance", "kubernetes")
BATCH_PODS = 3
"""Of a node."""
BATCH_MILLI, BATCH_BYTES = 2_000, 8 * GIB
WARM_SECONDS = 150.0
"""Two windows of every node, so that each has an offer that does not change from a cold start."""
_LAST_OFFERS_SECONDS = 6.0
_COLLAPSE_SHARE = 0.04
_COLLAPSE_SECONDS = 150.0
_HELD_SECONDS = 20.0
EVICTING: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "AvoidanceAction": ("evict", {"eviction": {"terminationGracePeriodSeconds": 1}, "disableScheduling": False}),
    "PodQOS": (
        "default",
        {
            "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
            "allowedActions": ["throttle", "evict"],
        },
    ),
    "Autonomy": (POOL, {"mode": "evict", "evictionsPerHour": 1000, "nodeEvictionsPerCycle": 1, "reliefsMissed": 1000}),
    "NodeQOS": (
        "bench-memory",
        {
            "selector": {"matchLabels": {}},
            "rules": [
                {
                    "name": "memory",
                    "metricRule": {"name": "node_memory_usage_ratio", "value": "92%", "target": "88%"},
                    "avoidanceThreshold": 2,
                    "actionName": "evict",
                }
            ],
        },
    ),
}
"""What lets the pool evict batch for memory (docs/how-to/allow-evictions.md). An eviction that waits for its budget
relieves nothing, so the guard on missed reliefs is wide."""


@dataclass(slots=True)
class Lent:
    """What was offered, and what a watch of nodes showed: (cpu, memory) of batch by node, in order."""

    offered: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Generation, cpu, memory."""
    shown: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)
    """Time, cpu, memory; only changes."""

    def note_shown(self, node: str, cpu: int, memory: int) -> None:
        entries = self.shown.setdefault(node, [])
        if not entries or entries[-1][1:] != (cpu, memory):
            entries.append((time.time(), cpu, memory))

    def settle(self, seen: Seen) -> int:
        """Note in `seen` when each offer was shown, and drop from it offers that changed nothing in the status; returns
        how many those are."""
        without = 0
        published = {offer: seen.published.get(event, 0.0) for event, offer in seen.offers.items()}
        dropped = set[tuple[str, int]]()
        for node, offers in self.offered.items():
            before: tuple[int, int] | None = None
            for generation, *amounts in offers:
                offer, after = (node, generation), (amounts[0], amounts[1])
                if after == before:
                    dropped.add(offer)
                    without += 1
                times = (at for at, *shown in self.shown.get(node, ()) if tuple(shown) == after)
                at = next((at for at in times if at >= published.get(offer, 0.0) - 1.0), None)
                if at is not None and after != before:
                    seen.readable[offer] = at
                before = after
        seen.offers = {event: offer for event, offer in seen.offers.items() if offer not in dropped}
        return without


def measure(directory: Path, *, nodes: int, pods: int, seconds: float) -> dict[str, Any]:
    """Measures the figure with so many nodes and pods in all; see the module docstring."""
    made = this_build()
    if not made.has(PROGRAMS):
        raise RuntimeError("the control plane is not built: make kubernetes")
    with running(made.folder, directory / "kubernetes", PARTS) as plane:
        rest = Rest(plane.kubeconfig)
        with closing(rest.client), in_force(rest):
            return asyncio.run(_measure(directory, plane.kubeconfig, nodes, pods, seconds))


async def _measure(directory: Path, kubeconfig: Path, count: int, pods: int, seconds: float) -> dict[str, Any]:
    names = [f"node-{number:05d}" for number in range(count)]
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(kwok_cluster(kubeconfig))
        account = await stack.enter_async_context(real_driver(kubeconfig, directory))
        prod = pods // count - BATCH_PODS
        with _step(f"{count} nodes, {prod * count} prod pods"):
            await cluster.add_nodes(names)
            await cluster.add_pods(prod_pod(f"web-{node}-{n}", node, f"web-{n}") for node in names for n in range(prod))
            await cluster.until(lambda: _count(cluster, "prod") == prod * count, "prod pods run")
        settings = {**SETTINGS, **RESTLESS, "SLACKWATER_KUBERNETES_KUBECONFIG": str(account.kubeconfig)}
        with _step("services"):
            plane = await stack.enter_async_context(control_plane(directory, SERVICES, settings))
            bus = await stack.enter_async_context(connect_bus(plane.nats_url, name="bench-agents", declares=False))
        agents = SimulatedAgents(bus, names, cluster.log.by_node)
        await agents.describe()
        seen, lent = Seen(), Lent()
        await stack.enter_async_context(offers_noted(plane, lent))
        await stack.enter_async_context(watching(plane, seen, lambda: _watch_nodes(cluster, lent)))
        reporting = asyncio.create_task(agents.report())
        stack.callback(reporting.cancel)
        began_at = time.time()
        with _step("every node lends"):
            await cluster.until(lambda: _lending(lent) == count, "every node lends")
        with _step(f"{BATCH_PODS * count} batch pods placed by the stock scheduler"):
            await cluster.add_pods(batch_pods(names))
            await cluster.until(lambda: _count(cluster, "batch") == BATCH_PODS * count, "batch pods are placed")
        scheduling = await over_asked(cluster, names[0], lent.shown[names[0]][-1][1])
        await asyncio.sleep(max(0.0, began_at + WARM_SECONDS - time.time()))
        with _step(f"{seconds:g} s measured"):
            writes, before, start, start_at = await cluster.writes(), plane.read(), time.monotonic(), time.time()
            await asyncio.sleep(seconds)
            after, span, written = plane.read(), time.monotonic() - start, await cluster.writes()
            await asyncio.sleep(_LAST_OFFERS_SECONDS)
        latencies = latencies_of(agents, seen, lent, start_at, start_at + span - TARGET_P99_SECONDS)
        collapsed = await collapse(cluster, plane, agents, lent, names[: max(2, int(count * _COLLAPSE_SHARE))])
        if reporting.done():
            reporting.result()
    memory = {name: round(reading.memory_mb) for name, reading in after.items()}
    p99 = latencies["settled"]["p99"]
    return {
        "nodes": count,
        "pods": pods,
        "reports_per_second": round(count / agents.interval_seconds),
        **latencies,
        "status_writes_per_minute": round((written["node status"] - writes["node status"]) / span * 60),
        "scheduling": scheduling,
        "collapse": collapsed,
        "cores": {name: round((after[name].cpu_seconds - before[name].cpu_seconds) / span, 3) for name in before},
        "memory_mb": memory,
        "worst_lag_seconds": round(agents.worst_lag_seconds, 3),
        "targets": (
            Target("usage to node status p99", p99, TARGET_P99_SECONDS, "s", Scale.TIME),
            Target("memory of kubernetes", after["kubernetes"].memory_mb, TARGET_MEMORY_MB, "MB"),
            Target("evictions beyond a budget", collapsed["beyond_budget"], 0),
            Target("evictions out of order", collapsed["out_of_order"], 0),
            Target("prod pods evicted", collapsed["prod_evicted"], 0),
            Target("nodes relieved", collapsed["relieved"], collapsed["nodes"], at_least=True),
        ),
    }


def latencies_of(agents: SimulatedAgents, seen: Seen, lent: Lent, since: float, until: float) -> dict[str, Any]:
    """Seconds from the reports that ended a window in this span to node status, in all and by step."""
    ledger = {"sampled_at": agents.sampled_at, "sent_at": agents.sent_at}
    judged = JudgedReports(ledger, len(agents.nodes), agents.interval_seconds, since, until)
    unchanged = lent.settle(seen)
    settled, predicted, without = delays(seen, judged)
    return {
        "settled": spread(settled),
        "predicted": spread(predicted),
        "stages": stages_of(seen, judged),
        "windows_without_a_write": without,
        "offers_without_a_write": unchanged,
    }


def batch_pods(nodes: Sequence[str]) -> Iterable[dict[str, Any]]:
    """So many that each node has some of both priorities. Two apps, so that a budget is shared by many nodes."""
    for node in nodes:
        for number in range(BATCH_PODS):
            priority, app = ("batch-high", "index") if number == 0 else ("batch-low", "crunch")
            yield batch_pod(f"{app}-{node}-{number}", app, priority, BATCH_MILLI, BATCH_BYTES, node=node)


async def over_asked(cluster: KwokCluster, node: str, lent_milli: int) -> Mapping[str, Any]:
    """Ask a node for more than it lends; returns the scheduler's reason."""
    await cluster.add_pods([batch_pod("too-large", "large", "batch-low", lent_milli + 1_000, GIB, node=node)])
    await cluster.until(lambda: _is_refused(cluster), "the scheduler refuses")
    reason = await cluster.unscheduled("too-large")
    if CPU not in reason:
        raise RuntimeError(f"the scheduler refuses for another reason: {reason}")
    await cluster.remove_pod("too-large")
    return {"batch_pods_placed": _count(cluster, "batch"), "over_asked": reason}


async def _is_refused(cluster: KwokCluster) -> bool:
    return bool(await cluster.unscheduled("too-large"))


async def collapse(
    cluster: KwokCluster, plane: ControlPlane, agents: SimulatedAgents, lent: Lent, nodes: Sequence[str]
) -> Mapping[str, Any]:
    """Let prod take the memory of nodes. Each has to lose its three batch pods, the two of low priority first; their
    budget allows half of that, and all of it once the others have waited for it."""
    keep = {"crunch": _running(cluster, "crunch") - len(nodes), "index": _running(cluster, "index") - len(nodes)}
    for app, pods in keep.items():
        await cluster.set_budget(app, pods)
        await cluster.until(lambda app=app: _allows(cluster, app, len(nodes)), "budgets are counted")
    documents = HttpDocuments(plane.urls["ensurance"])
    for kind, (name, spec) in EVICTING.items():
        await documents.put(kind_named(kind), name, spec)
    await documents.close()
    start, began = len(cluster.log.gone), time.time()
    cluster.log.count_from_now()
    offered = {node: lent.shown[node][-1][2] for node in nodes}
    batch_bytes = BATCH_PODS * BATCH_BYTES

    def gone() -> list[PodRecord]:
        return [entry.pod for entry in cluster.log.gone[start:]]

    with _step(f"prod takes the memory of {len(nodes)} nodes; the budget allows half"):
        for node in nodes:  # 98.5 %: below 92 % without the three
            agents.surging[node] = int(0.985 * SIZE.memory_bytes) - batch_bytes - SYSTEM_BYTES
        await _reached(lambda: len(gone()) >= len(nodes))
        await asyncio.sleep(_HELD_SECONDS)
        fewest, refused = dict(cluster.log.fewest), (await cluster.writes())["evictions refused"]
        held = len(gone())
    with _step("the budget allows all"):
        await cluster.set_budget("crunch", keep["crunch"] - len(nodes))
        await _reached(lambda: len(gone()) >= BATCH_PODS * len(nodes))
        await _reached(lambda: all(lent.shown[node][-1][2] < offered[node] / 2 for node in nodes))
    evicted = gone()
    calls = await cluster.writes()
    return {
        "nodes": len(nodes),
        "evicted_while_held": held,
        "evicted": _by_priority(evicted),
        "relieved": sum(count == BATCH_PODS for count in Counter(pod.node for pod in evicted).values()),
        "seconds_to_eviction": spread([entry.at - began for entry in cluster.log.gone[start:]], digits=1),
        "offers_below_half": sum(lent.shown[node][-1][2] < offered[node] / 2 for node in nodes),
        "fewest_running_while_held": {app: fewest[app] for app in keep},
        "budget_keeps": keep,
        "beyond_budget": sum(max(0, pods - fewest[app]) for app, pods in keep.items()),
        "decided": sum(map(len, agents.wanted.values())),
        "out_of_order": out_of_order(agents.wanted, {pod.uid: pod for pod in (*evicted, *cluster.log.pods.values())}),
        "prod_evicted": sum(pod.priority == PRIORITIES["prod"] for pod in evicted),
        "calls": {"accepted": calls["evictions"], "refused_by_budget": calls["evictions refused"]},
        "refused_while_held": refused,
    }


async def _reached(holds: Callable[[], bool]) -> None:
    """Wait for a condition, at most so long; what is missing then shows in the figure."""
    deadline = time.monotonic() + _COLLAPSE_SECONDS
    while not holds() and time.monotonic() < deadline:
        await asyncio.sleep(0.2)


def out_of_order(wanted: Mapping[str, Sequence[str]], pods: Mapping[str, PodRecord]) -> int:
    """How many evictions were decided after one of a higher priority on the same node. One that its budget holds does
    not hold those after it."""
    wrong = 0
    for uids in wanted.values():
        priorities = [pods[uid].priority for uid in uids if uid in pods]
        wrong += sum(one > other for one, other in itertools.pairwise(priorities))
    return wrong


def _by_priority(pods: Iterable[PodRecord]) -> Mapping[str, int]:
    names = {value: name for name, value in PRIORITIES.items()}
    found: dict[str, int] = {}
    for pod in pods:
        name = names.get(pod.priority, str(pod.priority))
        found[name] = found.get(name, 0) + 1
    return found


async def _allows(cluster: KwokCluster, app: str, count: int) -> bool:
    return await cluster.allowed(app) == count


def _running(cluster: KwokCluster, app: str) -> int:
    return len(cluster.log.running.get(app, ()))


def _count(cluster: KwokCluster, stem: str) -> int:
    priorities = {value for name, value in PRIORITIES.items() if name.startswith(stem)}
    return sum(pod.phase == "Running" and pod.priority in priorities for pod in cluster.log.pods.values())


def _lending(lent: Lent) -> int:
    return sum(entries[-1][1] > 0 and entries[-1][2] > 0 for entries in lent.shown.values())


async def _watch_nodes(cluster: KwokCluster, lent: Lent) -> None:
    page = await cluster.api.list_page(NODES, 100_000)
    version = page.version
    while True:
        async with aclosing(cluster.api.watch(NODES, version)) as events:  # type: ignore[type-var]
            async for event in events:
                version = event.version
                if event.item is not None:
                    amounts = dict(event.item.lent)
                    lent.note_shown(event.item.key, amounts.get(CPU, 0), amounts.get(MEMORY, 0))


@asynccontextmanager
async def offers_noted(plane: ControlPlane, lent: Lent) -> AsyncIterator[None]:
    """Keep what each offer is worth in node status."""
    client = await nats.connect(plane.nats_url)

    async def offered(message: Msg) -> None:
        offer = ResourcesOffered.model_validate_json(message.data)
        batch = offer.batch if offer.status is None else offer.status.batch
        lent.offered.setdefault(offer.node, []).append((offer.generation, batch.cpu_milli, batch.memory_bytes))

    await client.subscribe("sw.v1.resources.offered.>", cb=offered, pending_bytes_limit=256 * 2**20)
    await client.flush()
    try:
        yield
    finally:
        await client.close()


class _step:  # noqa: N801 - used like a function
    """Says what is done, and afterwards how long it took."""

    def __init__(self, title: str) -> None:
        self._title = title

    def __enter__(self) -> None:
        self._began = time.monotonic()
        sys.stderr.write(f"  {self._title} …\n")
        sys.stderr.flush()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            sys.stderr.write(f"  {self._title}: {time.monotonic() - self._began:.0f} s\n")
            sys.stderr.flush()
