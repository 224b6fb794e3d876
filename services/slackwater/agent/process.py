"""The agent as a process of its own: `python -m slackwater.agent`, which `slackwater agent` becomes.

Kept apart from the rest of the command line, because what this process imports is what every node pays for.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import NoReturn, get_args

from pydantic import ValidationError

from slackwater.agent.edge.exposition import exposing
from slackwater.agent.edge.late_bus import LateBus
from slackwater.agent.fleet import FleetService
from slackwater.agent.node_agent import AgentService
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.bus.access.enrolment import Enrolment, connect_enrolled
from slackwater.bus.connect.access import NatsAccess
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.model.errors import Misconfigured, SlackwaterError
from slackwater.model.time import SystemClock
from slackwater.runtime.limited_readings import LimitedReadings
from slackwater.runtime.platform import Platform
from slackwater.runtime.process_limits import watching_process
from slackwater.runtime.settings import explained
from slackwater.runtime.state import default_state_dir
from slackwater.telemetry.logs import Level, configure, get_logger
from slackwater.telemetry.metrics import note_build, process_meters
from slackwater.telemetry.spans import configure_tracing

_CONNECT_SECONDS = 5.0
_FIRST_CONNECTION_SECONDS = 0.5
_log = get_logger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 after an orderly stop with everything restored, 1 otherwise."""
    options = _parser().parse_args(arguments)
    configure("agent", level=options.log_level)
    configure_tracing("agent")
    try:
        settings = AgentSettings() if options.node is None else AgentSettings(node=options.node)
    except ValidationError as error:
        sys.stderr.write(f"slackwater agent: {explained(error, AgentSettings)}\n")
        return 1
    note_build("agent")
    try:
        service = asyncio.run(_work(settings, options.nats, options.state_dir.absolute()))
    except (SlackwaterError, OSError) as error:  # the latter of its own folder: a link in place of a file
        sys.stderr.write(f"slackwater agent: {error}\n")
        return 1
    return 0 if service.restored_exactly else 1


async def _work(settings: AgentSettings, url: str, state_dir: Path) -> AgentService | FleetService:
    bus = LateBus()
    service = build(settings, Platform(bus, SystemClock(), _no_database, state_dir))
    connect = connector(service, url, state_dir)

    limits = LimitedReadings(process_meters())
    async with exposing(settings), watching_process(limits, {"state": state_dir}), bus.connecting(connect):
        running = asyncio.create_task(_run(service, bus, settings.node))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    return service


def connector(
    service: AgentService | FleetService, url: str, state_dir: Path, access: NatsAccess | None = None
) -> Callable[[], AbstractAsyncContextManager[NatsBus]]:
    """Returns what opens the agent's connection. Raises Misconfigured now for what cannot work at any attempt.

    The simulated nodes of a fleet share one user.
    """
    access = access or NatsAccess()
    if access.enrolment_file is None or isinstance(service, FleetService):
        access.options(url)
        return lambda: connect_bus(url, name="agent", declares=False, wait_seconds=_CONNECT_SECONDS, access=access)
    enrolment = Enrolment(access, url, service.settings.node or service.driver.facts().name, state_dir)
    enrolment.check()
    return lambda: connect_enrolled(enrolment, url, name="agent", wait_seconds=_CONNECT_SECONDS)


async def _run(service: AgentService | FleetService, bus: LateBus, node: str | None) -> None:
    with suppress(TimeoutError):  # usually the broker is there, and the first messages need not wait for a retry
        async with asyncio.timeout(_FIRST_CONNECTION_SECONDS):
            await bus.first.wait()
    await service.run(lambda: _log.info("agent started", node=node))


def _no_database(service: str) -> NoReturn:
    raise Misconfigured(f"{service} asked for a database, but an agent has none")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="slackwater agent", description="Measure this machine and carry out intents.")
    parser.add_argument("--nats", required=True, metavar="URL", help="the bus, like nats://127.0.0.1:4222")
    parser.add_argument("--node", metavar="NAME", help="this node's name; the host name if not given")
    level = os.environ.get("SLACKWATER_LOG_LEVEL", "info").lower()
    parser.add_argument(
        "--log-level", choices=get_args(Level), default=level, help="default: SLACKWATER_LOG_LEVEL, info"
    )
    parser.add_argument(
        "--state-dir",
        default=default_state_dir(),
        type=Path,
        metavar="DIR",
        help="where journal and registry live; or SLACKWATER_STATE_DIR",
    )
    return parser
