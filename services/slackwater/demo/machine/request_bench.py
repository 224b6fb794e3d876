"""The HTTP service of the scenes lend and cpu, and the same stretch of requests for every turn."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from slackwater.charts.latency_chart import percentile
from slackwater.demo.machine.workloads import Load, program
from slackwater.demo.programs.load import Stretch
from slackwater.demo.stage import Stage, holds_within, require

LEAD_SECONDS: Final = 0.4
"""From the start of a load generator to its first request: what its interpreter needs."""
PATIENCE_SECONDS: Final = 2.0
"""A request without an answer by then has failed, and counts with this latency."""
REQUEST_SECONDS: Final = 0.0075
"""CPU time of one request, for which the service is calibrated. A stall caused by batch lasts about one time slice of
3 ms: short requests show it clearly, long ones are delayed less in proportion."""
_START_SECONDS, _DRAINED_CPUS, _DRAIN_SECONDS = 40.0, 0.15, 10.0


@dataclass(frozen=True, slots=True)
class MeasuredStretch:
    """What a stretch of requests showed: latencies in ms from the intended send time, the share of the time in which
    prod was stalled (None: the kernel does not count it), and CPU in cores."""

    seconds: float
    requests: int
    errors: int
    p99_ms: float | None
    pressure: float | None
    prod_cpu: float
    batch_cpu: float


@dataclass(slots=True)
class RequestBench:
    """The running service."""

    stage: Stage
    port: int

    def rate(self, load: float) -> float:
        """Returns the requests per second that take this share of the machine."""
        return load * self.stage.cpus / REQUEST_SECONDS

    async def send(self, load: float, seconds: float, start: float = 0.0) -> Load:
        """Start to send requests for so long; at once, or from this monotonic time on."""
        schedule = [Stretch("turn", seconds, load * self.stage.cpus / REQUEST_SECONDS)]
        return await self.stage.workloads.load(self.port, schedule, start, "turn", PATIENCE_SECONDS)

    async def measure(self, load: float, seconds: float) -> MeasuredStretch:
        """Send requests for so long, as many as take this share of the machine; returns what was measured then."""
        start = time.monotonic() + LEAD_SECONDS
        generator = await self.send(load, seconds, start)
        await asyncio.sleep(max(0.0, start - time.monotonic()))
        before = self.stage.kernel.read()
        await asyncio.sleep(max(0.0, start + seconds - time.monotonic()))
        after = self.stage.kernel.read()
        await generator.process.wait()
        samples = generator.samples("turn")
        p99 = percentile([sample.latency * 1000 for sample in samples], 0.99)
        span = max(1e-6, after.at - before.at)
        waited = None if before.waited is None or after.waited is None else after.waited - before.waited
        return MeasuredStretch(
            seconds=seconds,
            requests=len(samples),
            errors=sum(not sample.ok for sample in samples),
            p99_ms=None if p99 is None else round(p99, 2),
            pressure=None if waited is None else round(min(1.0, max(0.0, waited / span)), 4),
            prod_cpu=round((after.prod_cpu - before.prod_cpu) / span, 3),
            batch_cpu=round((after.batch_cpu - before.batch_cpu) / span, 3),
        )

    async def drain(self) -> None:
        """Wait until the service has worked off what it queued, so that no turn begins with another's backlog."""
        before = self.stage.kernel.read()

        def drained() -> bool:
            nonlocal before
            now = self.stage.kernel.read()
            used, before = (now.prod_cpu - before.prod_cpu) / max(1e-6, now.at - before.at), now
            return used < _DRAINED_CPUS

        await asyncio.sleep(LEAD_SECONDS / 2)
        await holds_within(drained, _DRAIN_SECONDS)


@asynccontextmanager
async def running_bench(
    stage: Stage, request_milli: int, workload: str = "quotes", flags: Sequence[str] = ()
) -> AsyncIterator[RequestBench]:
    """Start the service as a prod pod with this CPU request and further flags of `exec`; stop it after the block."""
    announced = stage.file("service.json")
    command = program("service", workers=stage.cpus, request_ms=REQUEST_SECONDS * 1000, announce=announced)
    async with stage.programs() as started:
        started.append(await stage.workloads.pod("prod", workload, request_milli, "256Mi", *command, flags=flags))
        await require(announced.exists, _START_SECONDS, "the demo service was not ready")
        yield RequestBench(stage, int(json.loads(announced.read_text())["port"]))
