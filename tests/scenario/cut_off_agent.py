"""A program: one simulated node, as its own process, whose prod surges while a file exists."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from slackwater.agent.adapters import simulated, simulated_load
from slackwater.agent.adapters.intents_file import JsonIntents
from slackwater.agent.edge.late_bus import LateBus
from slackwater.agent.fleet import FleetService
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.telemetry.logs import configure


def no_database(service: str) -> NoReturn:
    raise AssertionError(f"{service} asked for a database")


async def work(url: str, folder: Path) -> None:
    settings = AgentSettings(driver="simulated", nodes=1, sample_seconds=0.2, report_seconds=0.4)
    bus = LateBus(0.2)
    async with bus.connecting(lambda: connect_bus(url, name="agent", declares=False)):
        service = build(settings, Platform(bus, SystemClock(), no_database, folder))
        assert isinstance(service, FleetService)
        service.agents[0].intents = JsonIntents(folder / "intents.json")  # a simulated machine keeps none by itself
        running = asyncio.create_task(service.run(lambda: None))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait([running])


if __name__ == "__main__":
    configure("agent", level="info")
    surging = Path(sys.argv[2]) / "surge"

    def prod_load(seed: int, at: datetime, load: str) -> float:
        return simulated_load.SURGE_LOAD if surging.exists() else simulated_load.REST_LOAD

    simulated.prod_load = prod_load
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
