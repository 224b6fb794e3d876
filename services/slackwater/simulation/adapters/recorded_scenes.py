"""Builds scenes from recorded usage windows and the recorded CPU pressure of prod.

The demand of a batch pod is its usage. The demand of prod is its usage, or used / (1 - p) if its pressure p is
recorded, which is the planner's own estimate; the usage of both was then all the available capacity.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from urllib.parse import quote

from slackwater.model.errors import NotFound
from slackwater.model.plurals import counted
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.simulation.adapters.api_answers import ApiReader, Said, pages_of, resources_of, time_of, windows_of
from slackwater.simulation.adapters.recorded_history import SILENT_SECONDS
from slackwater.simulation.domain.scenes import PodDemand, SceneNode, UsageScene
from slackwater.simulation.ports import SimulationProgress

MOST_PRESSURE = 0.9
"""Pressure above this says nothing about the missing amount; the planner uses the same bound."""


@dataclass(frozen=True, slots=True)
class NodeScenes:
    """One node: its scenes and the ends of their windows (seconds since 1970), in order of time."""

    facts: SceneNode
    ends: Sequence[float]
    scenes: Sequence[UsageScene]


@dataclass(frozen=True)
class RecordedScenes:
    """See slackwater.simulation.ports.SceneHistory."""

    title: str
    recorded: Sequence[NodeScenes]
    start: int
    steps: int
    period_seconds: int
    notes: Sequence[str]

    @cached_property
    def nodes(self) -> Sequence[SceneNode]:
        return [node_scenes.facts for node_scenes in self.recorded]

    @property
    def start_seconds(self) -> float:
        return float(self.start)

    def scenes(self) -> Iterator[Sequence[UsageScene | None]]:
        for step in range(1, self.steps + 1):
            now = self.start + step * self.period_seconds
            yield [_at(node_scenes, now) for node_scenes in self.recorded]


def _at(scenes: NodeScenes, now: float) -> UsageScene | None:
    """Returns the scene of the newest window; None if the node is silent, because its usage is unknown."""
    newest = bisect_right(scenes.ends, now) - 1
    return scenes.scenes[newest] if newest >= 0 and now - scenes.ends[newest] <= SILENT_SECONDS else None


@dataclass(frozen=True, slots=True)
class _Pressures:
    """Pressure of prod on one node by report. `throttled` counts reports with a throttled pod."""

    at: Sequence[float]
    value: Sequence[float | None]
    throttled: int

    def within(self, begin: float, end: float) -> float | None:
        """Returns the p95 (nearest rank) over the reports of a window; None if nothing is recorded."""
        values = self.value[bisect_right(self.at, begin) : bisect_left(self.at, end + 1e-6)]
        known = sorted(value for value in values if value is not None)
        return known[math.ceil(0.95 * len(known)) - 1] if known else None


def recorded_scenes(reads: ApiReader, since_seconds: int, now: datetime, watch: SimulationProgress) -> RecordedScenes:
    """Reads the scenes of all known nodes. Raises NotFound if nothing was recorded, and what the API raises."""
    since = now - timedelta(seconds=since_seconds)
    nodes = [node for node in pages_of(reads, "/v1/nodes", {}) if node.get("facts")]
    limits = {pod["uid"]: pod["original_cpu_limit_milli"] for pod in pages_of(reads, "/v1/pods", {"limit": 1000})}
    watch.begin("reading recorded usage", len(nodes))
    recorded, seconds, reports, throttled, blind = [], 0, 0, 0, 0
    for node in nodes:
        windows = list(windows_of(reads, node["name"], since, now))
        pressures = _pressures(reads, node["name"], since)
        reports, throttled = reports + len(pressures.at), throttled + pressures.throttled
        watch.advance(1)
        if windows:
            seconds = max(seconds, int(windows[0]["seconds"]))
            scenes = _node(node, windows, limits, pressures)
            blind += sum(not scene.pressure_known for scene in scenes.scenes)
            recorded.append(scenes)
    if not recorded:
        raise NotFound(
            f"no usage has been recorded since {since:%Y-%m-%d %H:%M} UTC; usage windows are kept for "
            "SLACKWATER_INGESTION_RETENTION_DAYS days; let it run for a while, or give --trace"
        )
    start = int(min(node_scenes.ends[0] for node_scenes in recorded)) - seconds
    last = max(node_scenes.ends[-1] for node_scenes in recorded)
    count = sum(len(node_scenes.scenes) for node_scenes in recorded)
    return RecordedScenes(
        title="recorded here",
        recorded=recorded,
        start=start,
        steps=max(1, math.ceil((last - start) / seconds)),
        period_seconds=seconds,
        notes=list(_notes(seconds, len(nodes) - len(recorded), blind / count, throttled, reports)),
    )


def _notes(seconds: int, without: int, blind: float, throttled: int, reports: int) -> Iterator[str]:
    yield f"windows of {seconds} s hold the p95 of the node and its pods: shorter peaks are not in them"
    if without:
        yield f"{counted(without, 'known node has', 'known nodes have')} no recorded usage in this time"
    if blind:
        yield f"pressure is kept for a day: {blind:.0%} of the windows have none, and rules on it do nothing there"
    if throttled:
        yield (
            f"in {throttled} of {reports} reports pods were throttled by the policy in force: their demand may have "
            "been higher than their recorded usage"
        )
    yield "CPU limits are known only for pods that still exist"


def _pressures(reads: ApiReader, node: str, since: datetime) -> _Pressures:
    path = f"/v1/nodes/{quote(node, safe='')}/usage"
    points = list(pages_of(reads, path, {"since": since.isoformat(), "limit": 1000}))
    told = sorted((time_of(point["sampled_at"]).timestamp(), point["prod_pressure"]) for point in points)
    return _Pressures(
        [at for at, _ in told], [value for _, value in told], sum(point["throttled_pods"] > 0 for point in points)
    )


def _node(node: Said, windows: Sequence[Said], limits: Mapping[str, int | None], pressures: _Pressures) -> NodeScenes:
    facts = node["facts"]
    capacity = resources_of(facts["capacity"])
    ends, scenes = [], []
    pods: dict[str, Pod] = {}
    for said in windows:
        begin, seconds = time_of(said["start"]).timestamp(), int(said["seconds"])
        ends.append(begin + seconds)
        scenes.append(_scene(said, capacity, pressures.within(begin, begin + seconds), limits, pods))
    return NodeScenes(SceneNode(node["name"], facts["pool"], facts.get("labels", {})), ends, scenes)


def _scene(
    said: Said, capacity: Resources, pressure: float | None, limits: Mapping[str, int | None], pods: dict[str, Pod]
) -> UsageScene:
    node, measured = resources_of(said["usage"]), [pod for pod in said["pods"] if pod["usage"] is not None]
    lower = [_demand(pod, limits, pods) for pod in measured if pod["tier"] in (Tier.BATCH, Tier.FREE)]
    prod = sum(int(pod["usage"]["cpu_milli"]) for pod in measured if pod["tier"] == Tier.PROD)
    batch = sum(one.cpu_milli for one in lower)
    rest = node.cpu_milli - prod - batch
    demand = min(capacity.cpu_milli, round(prod / (1 - min(pressure or 0.0, MOST_PRESSURE))))
    full = demand > prod
    return UsageScene(
        capacity_milli=capacity.cpu_milli,
        capacity_bytes=capacity.memory_bytes or None,
        room_milli=prod + batch if full else max(prod + batch, capacity.cpu_milli - max(0, rest)),
        prod_milli=max(prod, demand),
        rest_milli=rest,
        rest_bytes=node.memory_bytes - sum(one.memory_bytes for one in lower),
        pods=lower,
        pressure_known=pressure is not None,
        mid_milli=sum(int(pod["usage"]["cpu_milli"]) for pod in measured if pod["tier"] == Tier.MID),
    )


def _demand(pod: Said, limits: Mapping[str, int | None], pods: dict[str, Pod]) -> PodDemand:
    uid, used = pod["uid"], resources_of(pod["usage"])
    if uid not in pods:
        pods[uid] = _pod(pod)
    return PodDemand(pods[uid], used.cpu_milli, used.memory_bytes, limits.get(uid))


def _pod(pod: Said) -> Pod:
    return Pod(
        uid=pod["uid"],
        name=pod["name"],
        namespace=pod["namespace"],
        workload=pod["workload"],
        tier=Tier(pod["tier"]),
        qos=QoSClass(pod["qos"]),
        priority=pod["priority"],
        request=resources_of(pod["request"]),
        started_at=time_of(pod["started_at"]),
        labels=pod["labels"],
    )
