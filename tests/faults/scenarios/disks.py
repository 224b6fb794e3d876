"""Full disks: below the broker, below PostgreSQL, and below a whole `slackwater up`. A clear error, then recovery."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from tests.faults.audit import audit, dead_letters
from tests.faults.disk import SmallDisk
from tests.faults.fleet import Fleet
from tests.faults.ledger import Ledger
from tests.faults.scenario import Result, Strictness
from tests.faults.scenarios.kills import PolicyWriter, Stage
from tests.faults.site import QUICK, SERVICES, Site, harness_bus, site
from tests.faults.supervisor import Program, free_port, slackwater, until

from slackwater.model.errors import SlackwaterError
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.state import StateDir

MIB = 2**20
RECOVERY_SECONDS = 15.0


async def broker_full(folder: Path, strictness: Strictness) -> Result:
    """The broker's disk fills up. Readiness reports it; the operator frees space and restarts the broker."""
    result = Result()
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(SmallDisk(folder / "broker-disk", 64 * MIB))
        here = await stack.enter_async_context(site(folder, broker_folder=disk.path))
        stage = await _load(stack, here, folder)
        await asyncio.sleep(4)
        disk.fill()
        said: list[str] = []
        took = await until(lambda: _unready(here, "ensurance", said), 60, "readiness says that nothing is stored")
        result.facts["seconds_until_it_was_said"] = round(took, 1)
        result.facts["said"] = said[-1] if said else ""
        result.promise("the error says what is wrong and what to do", any("disk" in one for one in said))
        await asyncio.sleep(8 * strictness.scale)
        result.promise("no service died", not any(one.unasked_exits for one in here.programs.values()))
        disk.clear()
        at = time.time()
        await here.broker.stop()
        await here.broker.start()
        await stage.recovered("ingestion", at)
        await stage.recovered("ensurance", at)
        await _finish(result, stage, here, telemetry_may_vanish=True)
        _judge_recovery(result, stage, strictness)
    return result


async def database_full(folder: Path, strictness: Strictness) -> Result:
    """PostgreSQL's disk is full for longer than any redelivery delay. No message becomes a dead letter."""
    result = Result()
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(SmallDisk(folder / "database-disk", 224 * MIB))
        here = await stack.enter_async_context(site(folder, database_folder=disk.path))
        stage = await _load(stack, here, folder)
        await asyncio.sleep(4)
        disk.fill()
        keeping = asyncio.create_task(_keep_running(here))
        stack.callback(keeping.cancel)
        filled = time.time()
        said: list[str] = []
        result.facts["seconds_until_it_was_said"] = round(
            await until(lambda: _refused(here, disk, said), 90, "PostgreSQL refuses for want of room"), 1
        )
        await asyncio.sleep(30 * strictness.scale)
        result.facts["seconds_full"] = round(time.time() - filled, 1)
        result.facts["said"] = said[-1][-300:] if said else ""
        result.promise("the error names the disk", any("space" in one.lower() for one in said))
        result.promise("no service died", not any(one.unasked_exits for one in here.programs.values()))
        disk.clear()
        at = time.time()
        for victim in ("ingestion", "ensurance", "console", "colocation"):
            await stage.recovered(victim, at)
        keeping.cancel()
        await _finish(result, stage, here, telemetry_may_vanish=False)
        letters = await dead_letters(stage.bus)
        result.promise("an outage makes no dead letters", not any("max_deliver" in name for name in letters))
        _judge_recovery(result, stage, strictness)
    return result


async def up_full(folder: Path, strictness: Strictness) -> Result:
    """A `slackwater up` on a full disk, with a ledger for fleet and operator: no acknowledged operation is lost, the
    error is reported, and with free space it recovers without a restart."""
    result = Result()
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(SmallDisk(folder / "disk", 288 * MIB))
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        state = disk.path / "state"
        settings = {**QUICK, "SLACKWATER_STATE_DIR": str(state), "SLACKWATER_AGENT_REPORT_SECONDS": "1"}
        command = [*slackwater(), "up", "--driver", "simulated", "--nodes", "1", "--port", str(port)]
        program = Program("up", command, folder, settings)
        stack.push_async_callback(program.stop)
        await program.start()
        http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False, timeout=4))
        await until(lambda: _answers(http, url, 200), 60, "it is up and ready", 0.3)
        here = _whole(folder, state, program, port)
        stack.push_async_callback(here.close)
        stage = await _load(stack, here, folder)
        await asyncio.sleep(4)
        disk.fill()
        filled = time.time()
        took = await until(lambda: _answers(http, url, 503), 90, "it says that it is not ready", 0.3)
        result.facts["seconds_until_it_was_said"] = round(took, 1)
        said = await _stay_full(http, url, disk, max(3, round(20 * strictness.scale)))
        result.facts["said"] = next((one for one in said if "failed" in one), "")
        result.facts["said_while_full"] = f"{sum('failed' in one for one in said)} of {len(said)} times"
        result.facts["seconds_full"] = round(time.time() - filled, 1)
        result.promise("the error says that the disk is full", any(re.search("disk|space|room", one) for one in said))
        disk.clear()
        began, cleared = time.time(), datetime.now(UTC)
        await until(lambda: _fresh(http, url, cleared), 120, "it shows what was measured after that", 0.3)
        for victim in ("ingestion", "ensurance"):
            await stage.recovered(victim, began)
            result.recovery_seconds += stage.recoveries[victim]
        bound = 60.0 * strictness.patience
        result.promise(f"it healed within {bound:g} s", max(result.recovery_seconds) <= bound)
        await _finish(result, stage, here, telemetry_may_vanish=True, strangers=True)
        result.promise("it healed without being started again", program.starts == 1)
        result.promise("it still stops in order", await program.stop() == 0)
    return result


def _whole(folder: Path, state: Path, program: Program, port: int) -> Site:
    """`slackwater up` as a site: all services are one process."""
    broker, database = EmbeddedNats(state / "nats"), EmbeddedPostgres(state)
    broker._port = urlsplit(StateDir(state).running_endpoint().nats_url).port or 0
    database._port = int(database._pid_file()[3])
    here = Site(folder, broker, database)
    here.programs = dict.fromkeys(SERVICES, program)
    here.ports = dict.fromkeys(SERVICES, port)
    return here


async def _stay_full(http: httpx2.AsyncClient, url: str, disk: SmallDisk, seconds: int) -> list[str]:
    """Collect the answers of readiness; fill space that becomes free."""
    said = []
    for _ in range(seconds):
        with suppress(httpx2.HTTPError):
            said.append((await http.get(f"{url}/readyz")).text[:1000])
        disk.fill()
        await asyncio.sleep(1)
    return said


async def _load(stack: AsyncExitStack, here: Site, folder: Path) -> Stage:
    ledger = Ledger(folder / "ledger.jsonl")
    stack.callback(ledger.close)
    fleet = Fleet(8, ledger, interval_seconds=0.5)
    stack.push_async_callback(fleet.close)
    await fleet.start(here.broker.url)
    bus = await stack.enter_async_context(harness_bus(here.broker.url))
    stage = Stage(here, fleet, PolicyWriter(here, ledger), bus)
    stage.writing = asyncio.create_task(stage.writer.run())
    stack.callback(stage.writing.cancel)
    return stage


async def _finish(
    result: Result, stage: Stage, here: Site, *, telemetry_may_vanish: bool, strangers: bool = False
) -> None:
    if stage.writing is not None:
        stage.writing.cancel()
    await stage.fleet.hush()
    settle = here.worked_off if strangers else here.settled
    result.facts["seconds_to_settle"] = round(await settle(stage.bus, 120), 1)
    result.findings = await audit(
        here, stage.fleet, stage.bus, telemetry_may_vanish=telemetry_may_vanish, strangers=strangers
    )
    result.facts["dead_letters"] = dict(await dead_letters(stage.bus))
    for name, program in here.programs.items():
        here.memory.look(name, program.pid)
    result.max_rss_bytes = max(here.memory.highest.values())


def _judge_recovery(result: Result, stage: Stage, strictness: Strictness) -> None:
    bound = RECOVERY_SECONDS * strictness.patience
    for victim, took in stage.recoveries.items():
        result.recovery_seconds += took
        result.promise(f"{victim} works within {bound:g} s of room being made", max(took) <= bound)


async def _unready(here: Site, service: str, said: list[str]) -> bool:
    try:
        answer = await here.http.get(here.url(service, "/readyz"))
    except httpx2.HTTPError:
        return False
    if "broker-stores failed" in answer.text:
        said.append(answer.text)
        return True
    return False


async def _refused(here: Site, disk: SmallDisk, said: list[str]) -> bool:
    """Whether PostgreSQL has reported the full disk; fills space that becomes free."""
    disk.fill()
    log = here.database.log_file
    try:
        text = log.read_text(errors="replace") if log.exists() else ""
    except OSError:
        return False
    found = re.findall(r".*No space left on device.*", text)
    for name, program in here.programs.items():
        found += [f"{name}: {line}" for line in re.findall(r".*No space left.*", program.log_tail(20_000))]
    said += found
    return (bool(found) and not await here.ready("ensurance")) or len(found) > 3


async def _keep_running(here: Site) -> None:
    """Restart PostgreSQL whenever it exits, as an init system does."""
    while True:
        await asyncio.sleep(0.5)
        if not here.database.running:
            try:
                await here.start_database()
            except (SlackwaterError, OSError):  # no room yet
                continue


async def _answers(http: httpx2.AsyncClient, url: str, status: int) -> bool:
    try:
        return (await http.get(f"{url}/readyz")).status_code == status
    except httpx2.HTTPError:
        return False


async def _fresh(http: httpx2.AsyncClient, url: str, since: datetime) -> bool:
    if not await _answers(http, url, 200):
        return False
    try:
        answer = await http.get(f"{url}/v1/nodes")
    except httpx2.HTTPError:
        return False
    stamps = re.findall(r'"sampled_at":"([^"]+)"', answer.text)
    return answer.status_code == 200 and any(datetime.fromisoformat(one) > since for one in stamps)
