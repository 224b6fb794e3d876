"""What an installation recorded, as scenes: windows of usage, and how prod waited meanwhile.

A pod of batch wants what it used. What prod wanted is what it used and, as far as its pressure p is kept, what it
waited for: used / (1 - p), the planner's own estimate; what both used then was all the room there was.
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
from slackwater.simulation.domain.scenes import SceneNode, UsageScene, WantedUse
from slackwater.simulation.ports import SimulationProgress

MOST_PRESSURE = 0.9
"""Beyond it pressure says no more how much was lacked; the planner's own bound."""


@dataclass(frozen=True, slots=True)
class NodeScenes:
    """One node: scenes by when their windows ended (seconds since 1970), in order of time."""

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
        return [one.facts for one in self.recorded]

    @property
    def start_seconds(self) -> float:
        return float(self.start)

    def scenes(self) -> Iterator[Sequence[UsageScene | None]]:
        for step in range(1, self.steps + 1):
            now = self.start + step * self.period_seconds
            yield [_at(one, now) for one in self.recorded]


def _at(one: NodeScenes, now: float) -> UsageScene | None:
    """Of the newest window; nobody knows what a node used that is silent."""
    newest = bisect_right(one.ends, now) - 1
    return one.scenes[newest] if newest >= 0 and now - one.ends[newest] <= SILENT_SECONDS else None


@dataclass(frozen=True, slots=True)
class _Pressures:
    """Of prod on one node, report by report; `throttled` counts those in which a pod was."""

    at: Sequence[float]
    value: Sequence[float | None]
    throttled: int

    def within(self, begin: float, end: float) -> float | None:
        """The p95 (nearest rank) of the reports of a window; None: nothing is kept of it."""
        found = self.value[bisect_right(self.at, begin) : bisect_left(self.at, end + 1e-6)]
        known = sorted(one for one in found if one is not None)
        return known[math.ceil(0.95 * len(known)) - 1] if known else None


def recorded_scenes(reads: ApiReader, since_seconds: int, now: datetime, watch: SimulationProgress) -> RecordedScenes:
    """Of all nodes that are known. Raises NotFound where nothing was recorded, and what the API raises."""
    since = now - timedelta(seconds=since_seconds)
    nodes = [node for node in pages_of(reads, "/v1/nodes", {}) if node.get("facts")]
    limits = {pod["uid"]: pod["original_cpu_limit_milli"] for pod in pages_of(reads, "/v1/pods", {"limit": 1000})}
    watch.begin("reading what was recorded", len(nodes))
    found, seconds, reports, throttled, blind = [], 0, 0, 0, 0
    for node in nodes:
        windows = list(windows_of(reads, node["name"], since, now))
        pressures = _pressures(reads, node["name"], since)
        reports, throttled = reports + len(pressures.at), throttled + pressures.throttled
        watch.advance(1)
        if windows:
            seconds = max(seconds, int(windows[0]["seconds"]))
            scenes = _node(node, windows, limits, pressures)
            blind += sum(not scene.pressure_known for scene in scenes.scenes)
            found.append(scenes)
    if not found:
        raise NotFound(
            f"nothing was recorded since {since:%Y-%m-%d %H:%M} UTC: windows of usage are kept for as many days as "
            "SLACKWATER_INGESTION_RETENTION_DAYS says; run for a while, or give --trace"
        )
    start = int(min(one.ends[0] for one in found)) - seconds
    last = max(one.ends[-1] for one in found)
    count = sum(len(one.scenes) for one in found)
    return RecordedScenes(
        title="recorded here",
        recorded=found,
        start=start,
        steps=max(1, math.ceil((last - start) / seconds)),
        period_seconds=seconds,
        notes=list(_notes(seconds, len(nodes) - len(found), blind / count, throttled, reports)),
    )


def _notes(seconds: int, without: int, blind: float, throttled: int, reports: int) -> Iterator[str]:
    yield f"windows of {seconds} s, each the p95 of its node and pods: what is shorter is not in them"
    if without:
        yield f"{counted(without, 'node is', 'nodes are')} known of which no usage was recorded in this time"
    if blind:
        yield f"of {blind:.0%} of the windows no pressure is kept (it is, for a day): its rules rest there"
    if throttled:
        yield (
            f"in {throttled} of {reports} reports pods were throttled by what was in force then: they may have wanted "
            "more than they used, which nobody recorded"
        )
    yield "CPU limits are those of the pods that are there now: of those that have ended none is known"


def _pressures(reads: ApiReader, node: str, since: datetime) -> _Pressures:
    path = f"/v1/nodes/{quote(node, safe='')}/usage"
    points = list(pages_of(reads, path, {"since": since.isoformat(), "limit": 1000}))
    told = sorted((time_of(one["sampled_at"]).timestamp(), one["prod_pressure"]) for one in points)
    return _Pressures(
        [at for at, _ in told], [value for _, value in told], sum(one["throttled_pods"] > 0 for one in points)
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
    lower = [_wanted(pod, limits, pods) for pod in measured if pod["tier"] in (Tier.BATCH, Tier.FREE)]
    prod = sum(int(pod["usage"]["cpu_milli"]) for pod in measured if pod["tier"] == Tier.PROD)
    batch = sum(one.cpu_milli for one in lower)
    rest = node.cpu_milli - prod - batch
    wanted = min(capacity.cpu_milli, round(prod / (1 - min(pressure or 0.0, MOST_PRESSURE))))
    full = wanted > prod
    return UsageScene(
        capacity_milli=capacity.cpu_milli,
        capacity_bytes=capacity.memory_bytes or None,
        room_milli=prod + batch if full else max(prod + batch, capacity.cpu_milli - max(0, rest)),
        prod_milli=max(prod, wanted),
        rest_milli=rest,
        rest_bytes=node.memory_bytes - sum(one.memory_bytes for one in lower),
        pods=lower,
        pressure_known=pressure is not None,
        mid_milli=sum(int(pod["usage"]["cpu_milli"]) for pod in measured if pod["tier"] == Tier.MID),
    )


def _wanted(pod: Said, limits: Mapping[str, int | None], pods: dict[str, Pod]) -> WantedUse:
    uid, used = pod["uid"], resources_of(pod["usage"])
    if uid not in pods:
        pods[uid] = _pod(pod)
    return WantedUse(pods[uid], used.cpu_milli, used.memory_bytes, limits.get(uid))


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
