"""A process that is given secrets everywhere, asked well and badly: none of them is in what it wrote."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import httpx2
from broker_scene import Broker, secured
from tests.support.postgres_server import FreshDatabase

CANARIES = {
    "SLACKWATER_HTTP_TOKEN": "canary-single-4f1d",
    "file": "canary-in-the-file-77aa",
    "query": "canary-asked-93b2",
}


async def test_no_secret_is_in_the_logs_of_a_run(tmp_path: Path, fresh_database: FreshDatabase) -> None:
    broker = await secured(tmp_path / "broker")
    try:
        output, asked = await run_and_ask(broker, (await fresh_database(["console"]))["console"], tmp_path)
    finally:
        await broker.server.stop()
    assert asked == {"right": 200, "wrong": 401, "query": 401, "forbidden": 403}
    secrets = [*CANARIES.values(), broker.credentials("console").key.seed]
    assert [secret for secret in secrets if secret in output] == []
    assert "PRIVATE KEY" not in output


async def run_and_ask(broker: Broker, dsn: str, folder: Path) -> tuple[str, dict[str, int]]:
    tokens = folder / "tokens"
    tokens.write_text(f"anna viewer {CANARIES['file']}\n")
    tokens.chmod(0o600)
    certificate, key = broker.trusted.issue("client.example")
    environment = {
        **os.environ,
        "SLACKWATER_HTTP_TOKEN": CANARIES["SLACKWATER_HTTP_TOKEN"],
        "SLACKWATER_TOKENS_FILE": str(tokens),
        "SLACKWATER_POSTGRES_DSN": dsn,
        "SLACKWATER_NATS_URL": broker.url,
        "SLACKWATER_NATS_CREDENTIALS_FILE": str(broker.folder / "credentials" / "console.creds"),
        "SLACKWATER_NATS_CA": str(broker.trusted.ca),
        "SLACKWATER_NATS_CERTIFICATE": str(certificate),
        "SLACKWATER_NATS_KEY": str(key),
        "SLACKWATER_STATE_DIR": str(folder / "state"),
        "SLACKWATER_LOG_LEVEL": "debug",
    }
    log = folder / "log"
    line = [sys.executable, "-m", "slackwater.cli", "run", "console", "--port", "0"]
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*line, env=environment, stdout=out, stderr=out)
    try:
        url = await address(log, process)
        asked = await ask(url, tokens)
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 30)
    return log.read_text() + (broker.server.log_file.read_text()), asked


async def address(log: Path, process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(60):
        while (found := re.search(r"^console (http\S+)$", log.read_text(), re.M)) is None:
            assert process.returncode is None, log.read_text()
            await asyncio.sleep(0.05)
    return found[1]


async def ask(url: str, tokens: Path) -> dict[str, int]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:

        async def status(path: str, token: str | None = None) -> int:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return (await client.get(path, headers=headers)).status_code

        found = {
            "right": await status("/version", CANARIES["file"]),
            "wrong": await status("/version", CANARIES["query"]),
            "query": await status(f"/version?token={CANARIES['query']}"),
        }
        tokens.write_text(f"anna agent {CANARIES['file']}\n")  # from now on a role that does not reach
        return found | {"forbidden": await status("/version", CANARIES["file"])}
