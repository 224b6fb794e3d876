"""`slackwater run`: services as processes of their own against servers that they share."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx2
import pytest
import pytest_asyncio
from tests.support.reports import described, report

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import event_of
from slackwater.model.errors import Misconfigured
from slackwater.model.identifiers import new_id
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database, prepare_service

PATIENCE_SECONDS = 60.0


@pytest_asyncio.fixture
async def shared_dsn(postgres_dsn: str) -> str:
    """An administrator's address of a database that does not exist yet; removed with the session's server."""
    return urlunsplit(urlsplit(postgres_dsn)._replace(path="/test_run_" + new_id().replace("-", "")))


@contextmanager
def running(service: str, dsn: str, nats: str, state_dir: Path) -> Iterator[str]:
    """The service in a process; its address once it says so."""
    given = {"SLACKWATER_POSTGRES_DSN": dsn, "SLACKWATER_NATS_URL": nats, "SLACKWATER_STATE_DIR": str(state_dir)}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **given}
    command = [sys.executable, "-m", "slackwater.cli", "run", service, "--port", "0"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        name, _, url = process.stdout.readline().strip().partition(" ")
        assert name == service
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not found():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


async def test_a_report_travels_through_two_processes_to_the_rest_of_the_console(
    shared_dsn: str, nats_url: str, bus: NatsBus, tmp_path: Path
) -> None:
    with (
        running("ingestion", shared_dsn, nats_url, tmp_path) as ingestion,
        running("console", shared_dsn, nats_url, tmp_path) as console,
        httpx2.Client(trust_env=False) as client,
    ):
        now = datetime.now(UTC)
        await bus.publish(event_of(described("edge-1", now), source="tests", time=now))
        await bus.publish(event_of(report("edge-1", 1, now, cpu_milli=1234), source="tests", time=now))

        def shown() -> bool:
            answer = client.get(f"{console}/v1/nodes/edge-1")
            node = answer.json() if answer.status_code == 200 else {}
            return node.get("liveness") == "fresh" and "1234" in answer.text  # liveness comes from ingestion

        await asyncio.to_thread(until, shown)
        for url in (ingestion, console):
            assert client.get(f"{url}/livez").status_code == 200
            ready = client.get(f"{url}/readyz?verbose")
            assert ready.status_code == 200, ready.text
        metrics = client.get(f"{ingestion}/metrics").text
        assert "slackwater_ingestion_reports_accepted_total 1.0" in metrics
        assert "slackwater_build_info{" in metrics
        assert client.get(f"{ingestion}/v1/nodes").status_code == 404  # each serves its own routes only


async def test_the_services_own_role_is_enough_once_an_administrator_made_it(shared_dsn: str) -> None:
    schema = Schema.of("ingestion")
    own = (await prepare_database(shared_dsn, [schema]))["ingestion"]
    assert await prepare_service(own, schema) == own
    assert await prepare_service(shared_dsn, schema) == own


async def test_a_role_without_privileges_gets_advice(shared_dsn: str) -> None:
    own = (await prepare_database(shared_dsn, [Schema.of("ingestion")]))["ingestion"]
    with pytest.raises(Misconfigured, match="owner of the schema"):
        await prepare_service(own, Schema.of("console"))


async def test_a_wrong_password_is_one_line_that_says_so(shared_dsn: str) -> None:
    await prepare_database(shared_dsn, [])
    parts = urlsplit(shared_dsn)
    wrong = urlunsplit(parts._replace(netloc=f"{parts.username}:wrong@{parts.hostname}:{parts.port}"))
    with pytest.raises(Misconfigured, match="refuses the login"):
        await prepare_service(wrong, Schema.of("ingestion"))


IMPATIENT = (
    "from functools import partial\n"
    "from slackwater.cli import main, single_service\n"
    "single_service.connect_bus = partial(single_service.connect_bus, wait_seconds=0.5)\n"
    "main.main()\n"
)
"""The command line, which waits for a broker for half a second instead of ten."""


@pytest.mark.parametrize("away", ["postgres", "nats"])
def test_a_server_that_is_away_is_one_clear_line(away: str, shared_dsn: str, nats_url: str, tmp_path: Path) -> None:
    dsn = "postgresql://nobody:secret@127.0.0.1:9/none" if away == "postgres" else shared_dsn
    url = "nats://127.0.0.1:9" if away == "nats" else nats_url
    command = [sys.executable, "-c", IMPATIENT, "run", "console", "--port", "0", "--postgres", dsn, "--nats", url]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SLACKWATER_STATE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("slackwater: ")
    assert {"postgres": "PostgreSQL", "nats": "NATS"}[away] in last
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
