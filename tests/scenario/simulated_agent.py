"""A program: one simulated node whose prod always wants more than is good for its neighbours, as its own process."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import NoReturn

from slackwater.agent.adapters import simulated
from slackwater.agent.adapters.simulated_load import SURGE_LOAD
from slackwater.agent.edge.exposition import exposing
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.telemetry.logs import configure
from slackwater.telemetry.metrics import note_build
from slackwater.telemetry.spans import configure_tracing


def no_database(service: str) -> NoReturn:
    raise AssertionError(f"{service} asked for a database")


async def work(url: str, state_dir: Path) -> None:
    settings = AgentSettings(
        driver="simulated", nodes=1, report_seconds=1.0, trace_seconds=0, urgent_trace_seconds=0, metrics_port=0
    )
    async with connect_bus(url, name="agent", declares=False) as bus, exposing(settings) as page:
        service = build(settings, Platform(bus, SystemClock(), no_database, state_dir))
        running = asyncio.create_task(service.run(lambda: print(f"agent {page}", flush=True)))  # noqa: T201 - as others do
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait([running])


if __name__ == "__main__":
    configure("agent", level="info")
    configure_tracing("agent")
    note_build("agent")
    simulated.prod_load = lambda seed, at, load: SURGE_LOAD  # type: ignore[assignment, misc] # no rest in this test
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
