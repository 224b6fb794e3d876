"""Latency from a report to the resulting offer in the API.

An offer changes when a usage window ends, so the measured report is the one that ends a window: the first one with its
midpoint after the window's end. Its path: report -> ingestion closes the window (usage.windowed) -> colocation computes
an offer, and prediction a peak (peak.predicted), from which colocation computes another offer -> the console stores it
and sends it on /v1/stream. The time is measured from the hand-over of the report to the broker until a client of the
API reads the offer (its row was committed before).

    settled     the offer that the window caused; the target applies to it
    predicted   the offer that its prediction caused; predictions are computed every 20 s and most are unchanged

The whole control plane runs, one process per service. The usage of every node changes with every window, so that every
window causes a new offer. The cause of an offer is the `ce-causedby` header of its event.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import nats
from nats.aio.msg import Msg
from tests.bench.control_plane import ControlPlane, control_plane, load
from tests.bench.figures import spread
from tests.bench.ingestion import describe
from tests.bench.verdict import Scale, Target

TARGET_P99_SECONDS = 2.0
"""At 2,000 nodes; 10,000 nodes that report half as often may take 5 s."""
WINDOW_SECONDS = 60
INTERVAL_SECONDS = 5.0
WARM_SECONDS = 25.0
_LAST_OFFERS_SECONDS = 6.0
SETTINGS = {
    "SLACKWATER_PREDICTION_CPU_SETTINGS": '{"cold_hours": 1}',
    "SLACKWATER_PREDICTION_MEMORY_SETTINGS": '{"cold_hours": 1}',
    "SLACKWATER_INGESTION_WINDOW_SECONDS": str(WINDOW_SECONDS),
}
"""Predictions without a cold start of a day."""
RESTLESS = {
    "SLACKWATER_COLOCATION_RISE_WINDOWS": "1",
    "SLACKWATER_COLOCATION_RESOURCE_DIFF_THRESHOLD": "0.01",
}
"""Every change of usage changes the offer; by default most windows would not."""


class _Window(msgspec.Struct):
    """The decoded fields of usage.windowed: only these, because the observer shares the cores with the product."""

    node: str
    window_start: str


_WINDOW = msgspec.json.Decoder(_Window)

Offer = tuple[str, int]
"""A node and the generation of its offer."""


@dataclass(slots=True)
class Seen:
    """Observed events: windows by event id (node, end), the cause of each event, the offer of each event, and the time
    at which an offer was readable."""

    windows: dict[str, tuple[int, float]] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    readable: dict[Offer, float] = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)
    lost_news: int = 0

    def read_at(self, offer: Offer) -> float:
        """The time at which this offer, or a newer one that replaced it in the stream, was read; infinite if never."""
        node, generation = offer
        later = ((node, generation + step) for step in range(4))
        return min(self.readable.get(one, float("inf")) for one in later)


@dataclass(frozen=True, slots=True)
class Load:
    """A fleet with its report interval, the target for p99, and the warm-up that is not judged.

    A node's usage changes every `period_seconds`. With `restless` the offer follows every change at once, else as by
    default: a drop at once, a rise after its second window. The fleet grows during `ramp_seconds`.
    """

    nodes: int
    interval_seconds: float = INTERVAL_SECONDS
    target_seconds: float = TARGET_P99_SECONDS
    warm_seconds: float = WARM_SECONDS
    period_seconds: float = float(WINDOW_SECONDS)
    restless: bool = True
    ramp_seconds: float = 0.0
    pods: int = 30


LARGE = Load(10_000, 10.0, 5.0, warm_seconds=200.0, period_seconds=300.0, restless=False, ramp_seconds=100.0)
"""With each window a fifth of the nodes changes: as many offers as 2,000 nodes that change with every window. A
thousand nodes start every ten seconds, because no real fleet of 10,000 nodes starts within ten seconds."""
SIMULATED = replace(LARGE, pods=4)
"""The same fleet with as many pods per node as the simulated driver has."""


def measure(directory: Path, fleet: Load, *, seconds: float = 75.0) -> dict[str, Any]:
    """Measures the figure for a fleet; see the module docstring."""
    return asyncio.run(_measure(directory, fleet, seconds))


async def _measure(directory: Path, fleet: Load, seconds: float) -> dict[str, Any]:
    nodes, interval, target, warm = fleet.nodes, fleet.interval_seconds, fleet.target_seconds, fleet.warm_seconds
    settings = SETTINGS | (RESTLESS if fleet.restless else {})
    settings |= {"SLACKWATER_INGESTION_REPORT_INTERVAL_SECONDS": str(interval)}
    async with control_plane(directory, settings=settings) as plane:
        await describe(plane, nodes)
        seen = Seen()
        ledger_file = directory / "ledger.json"
        options = (
            "--nodes",
            nodes,
            "--interval",
            interval,
            "--seconds",
            warm + seconds,
            "--period",
            fleet.period_seconds,
            "--ramp",
            fleet.ramp_seconds,
            "--pods",
            fleet.pods,
        )
        async with watching(plane, seen), load(plane, ledger_file, "--times", *map(str, options)) as generator:
            await asyncio.sleep(warm)
            before, began, began_at = plane.read(), time.monotonic(), time.time()
            await asyncio.sleep(seconds - 1)
            after, span = plane.read(), time.monotonic() - began
            await generator.wait()
            await asyncio.sleep(_LAST_OFFERS_SECONDS)
        ledger = json.loads(ledger_file.read_text())
    judged = JudgedReports(ledger, nodes, interval, began_at, began_at + span - target)
    settled, predicted, without = delays(seen, judged)
    cores = {name: round((after[name].cpu_seconds - before[name].cpu_seconds) / span, 3) for name in before}
    memory = {name: round(reading.memory_mb) for name, reading in after.items()}
    settled_spread = spread(settled)
    return {
        "nodes": nodes,
        "pods": fleet.pods,
        "reports_per_second": round(ledger["published"] / ledger["seconds"]),
        "windows_per_second": round(len(settled) / span, 1),
        "settled": settled_spread,
        "predicted": spread(predicted),
        "stages": stages_of(seen, replace(judged, until=began_at + span)),
        "windows_without_a_new_offer": without,
        "news_lost_by_the_reader": seen.lost_news,
        "cores": cores,
        "memory_mb": memory | {"control plane": sum(mb for name, mb in memory.items() if name != "generator")},
        "generator_worst_lag_seconds": round(ledger["worst_lag_seconds"], 3),
        "targets": (Target("settled p99", settled_spread["p99"], target, "s", Scale.TIME),),
    }


@asynccontextmanager
async def watching(
    plane: ControlPlane, seen: Seen, read: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> AsyncIterator[None]:
    """Reads headers from the bus, and meanwhile what offers become: without `read` those of the API."""
    client = await nats.connect(plane.nats_url)

    async def window(message: Msg) -> None:
        told = _WINDOW.decode(message.data)
        seen.published[(message.headers or {})["ce-id"]] = time.time()
        end = datetime.fromisoformat(told.window_start).timestamp() + WINDOW_SECONDS
        seen.windows[(message.headers or {})["ce-id"]] = (int(told.node[-5:]), end)

    async def caused(message: Msg) -> None:
        headers = message.headers or {}
        if "ce-causedby" in headers:
            seen.causes[headers["ce-id"]] = headers["ce-causedby"]
            seen.published[headers["ce-id"]] = time.time()
        if "resources.offered" in headers.get("ce-type", ""):
            told = json.loads(message.data)
            seen.offers[headers["ce-id"]] = (told["node"], told["generation"])

    await client.subscribe("sw.v1.usage.windowed.>", cb=window, pending_bytes_limit=256 * 2**20)
    await client.subscribe("sw.v1.peak.predicted.>", cb=caused, pending_bytes_limit=256 * 2**20)
    await client.subscribe("sw.v1.resources.offered.>", cb=caused, pending_bytes_limit=256 * 2**20)
    reading = asyncio.create_task(_read_stream(plane.urls["console"], seen) if read is None else read())
    try:
        yield
        if reading.done():
            reading.result()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await client.close()


async def _read_stream(url: str, seen: Seen) -> None:
    """Reads server-sent events as a browser or a script does."""
    async with (
        httpx2.AsyncClient(timeout=None) as client,
        client.stream("GET", f"{url}/v1/stream", params={"types": "resources.offered"}) as answer,
    ):
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line == "event: lost":
                seen.lost_news += 1
            elif line.startswith("data: ") and "generation" in line:
                told = json.loads(line[6:])
                seen.readable.setdefault((told["node"], told["data"]["generation"]), time.time())


@dataclass(frozen=True, slots=True)
class JudgedReports:
    """The reports of the ledger that were sent in a span."""

    ledger: dict[str, Any]
    nodes: int
    interval_seconds: float
    since: float
    until: float

    def ended_by(self, node: int, end: float) -> float | None:
        """The time at which the node's first report after the window's end was sent, if within the span."""
        sampled: Sequence[float] = self.ledger["sampled_at"]
        for number in range(node, len(sampled), self.nodes):
            if sampled[number] - self.interval_seconds / 2 >= end:
                sent_at: float = self.ledger["sent_at"][number]
                return sent_at if self.since <= sent_at <= self.until else None
        return None


def delays(seen: Seen, judged: JudgedReports) -> tuple[list[float], list[float], int]:
    """Seconds from the ending report of each window to its offer and to the offer of its prediction, and the number of
    windows without a new offer."""
    direct: dict[str, list[float]] = {}
    later: dict[str, list[float]] = {}
    for event, offer in seen.offers.items():
        cause = seen.causes.get(event, "")
        moments, window = (direct, cause) if cause in seen.windows else (later, seen.causes.get(cause, ""))
        if window in seen.windows:
            moments.setdefault(window, []).append(seen.read_at(offer))
    settled, predicted, without = [], [], 0
    for window, (node, end) in seen.windows.items():
        sent_at = judged.ended_by(node, end)
        if sent_at is None:
            continue
        if window in direct:
            settled.append(max(direct[window]) - sent_at)
        if window in later:
            predicted.append(max(later[window]) - sent_at)
        without += window not in direct and window not in later
    return settled, predicted, without


def stages_of(seen: Seen, judged: JudgedReports) -> dict[str, Any]:
    """The latency of each step: from the previous event to the bus, then from the bus to the reader."""
    steps: dict[str, list[float]] = {
        "report to window": [],
        "window to peak": [],
        "cause to offer": [],
        "offer to API": [],
    }
    for window, (node, end) in seen.windows.items():
        if (sent_at := judged.ended_by(node, end)) is not None:
            steps["report to window"].append(seen.published[window] - sent_at)
    for event, cause in seen.causes.items():
        if cause not in seen.published or not judged.since <= seen.published[cause] <= judged.until:
            continue
        step = "cause to offer" if event in seen.offers else "window to peak"
        steps[step].append(seen.published[event] - seen.published[cause])
        if event in seen.offers and seen.offers[event] in seen.readable:
            steps["offer to API"].append(seen.readable[seen.offers[event]] - seen.published[event])
    return {name: spread(seconds) for name, seconds in steps.items()}
