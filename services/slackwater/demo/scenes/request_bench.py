"""The HTTP service of the scenes lend and cpu, and the same stretch of requests for every turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from slackwater.demo import summary
from slackwater.demo.kernel import Gauge
from slackwater.demo.scenes.other_work import OtherWork, measured
from slackwater.demo.scenes.scene import Stage
from slackwater.demo.schedule import REQUEST_SECONDS
from slackwater.demo.summary import Phase
from slackwater.demo.workloads import PROD_WORKLOAD

LEAD_SECONDS: Final = 0.4
"""From the start of a load generator to its first request: what its interpreter needs."""
PATIENCE_SECONDS: Final = 2.0
"""A request without an answer by then has failed, and counts with this latency."""
_DRAINED_CPUS, _DRAIN_STEP_SECONDS, _DRAIN_STEPS = 0.15, 0.2, 25
_WARM_SECONDS, _WARM_RATE = 1.5, 60.0
_GAUGE_SECONDS = 0.5
SLOWEST_KEPT: Final = 20
"""More than a turn of 230 requests may have beyond its p99 by chance (slackwater.demo.chance)."""


@dataclass(frozen=True, slots=True)
class MeasuredStretch:
    """What a stretch of requests showed, from `began` to `ended` (monotonic seconds). `slowest_ms` are the latencies of
    its SLOWEST_KEPT slowest requests, falling."""

    phase: Phase
    slowest_ms: tuple[float, ...]
    other: OtherWork
    began: float
    ended: float


@dataclass(slots=True)
class RequestBench:
    """The running service. `request_cpu` is its CPU seconds per request."""

    stage: Stage
    gauge: Gauge
    port: int
    rounds: int
    request_cpu: float
    doing: str = ""

    def rate(self, load: float) -> float:
        """Returns the requests per second that take this share of the machine."""
        return load * self.stage.workloads.cpus / self.request_cpu

    async def measure(self, name: str, doing: str, load: float, seconds: float) -> MeasuredStretch:
        """Send requests for so long; returns what was measured in that time."""
        self.doing = doing
        start = time.monotonic() + LEAD_SECONDS
        rate = self.rate(load)
        generator = await self.stage.workloads.load(
            self.port, f"turn:{seconds}:{rate:.2f}", start, name, PATIENCE_SECONDS
        )
        await asyncio.sleep(max(0.0, start - time.monotonic()))
        with measured() as other:
            await asyncio.sleep(max(0.0, start + seconds - time.monotonic()))
        await generator.process.wait()
        pressures = [sample.some for sample in self.gauge.pressures(start, start + seconds)]
        cores = self.gauge.cores(start, start + seconds)
        samples = generator.samples("turn")
        phase = summary.phase(name, seconds, samples, pressures, cores)
        slowest = sorted((round(sample.latency * 1000, 2) for sample in samples), reverse=True)[:SLOWEST_KEPT]
        return MeasuredStretch(phase, tuple(slowest), other.found, start, start + seconds)

    async def drain(self) -> None:
        """Wait until the service has worked off what it queued, so that no turn begins with another's backlog."""
        before = self.stage.kernel.read()
        for _ in range(_DRAIN_STEPS):
            await asyncio.sleep(_DRAIN_STEP_SECONDS)
            now = self.stage.kernel.read()
            if now.prod_cpu - before.prod_cpu < _DRAINED_CPUS * (now.at - before.at):
                return
            before = now

    async def watch(self) -> None:
        """Read the gauges until cancelled."""
        while True:
            pressure = self.gauge.tick()
            self.stage.narrator.now(self.doing, pressure, self.stage.kernel.batch_limits())
            await asyncio.sleep(_GAUGE_SECONDS)


@asynccontextmanager
async def running_bench(stage: Stage, request_milli: int, workload: str = PROD_WORKLOAD) -> AsyncIterator[RequestBench]:
    """Start the service as a prod pod with this CPU request, and stop all workloads after the block."""
    port, rounds, process = await stage.workloads.service(REQUEST_SECONDS, request_milli, workload)
    bench = RequestBench(stage, Gauge(stage.kernel), port, rounds, stage.request_cpu or REQUEST_SECONDS, "service")
    watch = asyncio.create_task(bench.watch())
    try:
        if stage.request_cpu is None:
            stage.request_cpu = bench.request_cpu = await _request_cpu(bench)
        yield bench
    finally:
        watch.cancel()
        await stage.workloads.stop(process)


async def _request_cpu(bench: RequestBench) -> float:
    kernel = bench.stage.kernel
    began = kernel.read().prod_cpu
    load = await bench.stage.workloads.load(bench.port, f"warm:{_WARM_SECONDS}:{_WARM_RATE}", 0.0, "warm")
    await load.process.wait()
    return (kernel.read().prod_cpu - began) / max(1, len(load.samples("warm")))
