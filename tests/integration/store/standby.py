"""A PostgreSQL with a synchronous standby that can take its place: real servers, replicating by WAL."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from slackwater.runtime.embedded_postgres import EmbeddedPostgres, installed_binaries
from slackwater.runtime.postgres_account import choose_account

_POLL_SECONDS = 0.05


@dataclass
class Pair:
    """`primary` runs and replicates every commit to the server on `standby_port`."""

    primary: EmbeddedPostgres
    standby_port: int

    async def demote(self) -> None:
        """Make the primary refuse writes, as a server that became a standby does; its sessions stay."""
        await _execute(self.primary.dsn, "ALTER SYSTEM SET default_transaction_read_only = on")
        await _execute(self.primary.dsn, "SELECT pg_reload_conf()")

    async def promote(self) -> None:
        """Make the standby a primary."""
        await _execute(address_at(self.primary.dsn, self.standby_port), "SELECT pg_promote()")


def address_at(dsn: str, port: int) -> str:
    """Returns the address with another port."""
    parts = urlsplit(dsn)
    return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}").geturl()


@asynccontextmanager
async def replicated(folder: Path) -> AsyncIterator[Pair]:
    """Both servers, with the standby in step."""
    folder.chmod(0o755)
    with EmbeddedPostgres(folder / "primary", durable=False) as primary:
        maintenance = primary.dsn.rpartition("/")[0] + "/postgres"
        await _execute(maintenance, "ALTER SYSTEM SET wal_level = replica")
        await _execute(maintenance, "ALTER SYSTEM SET max_wal_senders = 4")
        primary.stop()
        primary.start()
        maintenance = primary.dsn.rpartition("/")[0] + "/postgres"
        port = _free_port()
        process = _start_standby(folder, maintenance, port)
        try:
            await _execute(maintenance, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            await _execute(maintenance, "SELECT pg_reload_conf()")
            yield Pair(primary, port)
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()


def _start_standby(folder: Path, source: str, port: int) -> subprocess.Popen[bytes]:
    binaries, home = installed_binaries(), folder / "standby"
    home.mkdir(mode=0o755)
    owner = next((folder / "primary").rglob("PG_VERSION")).stat().st_uid
    account = choose_account(home, binaries, owner)
    data = home / "data"
    data.mkdir(mode=0o700)
    shutil.chown(data, account.owner)
    copy = [*account.prefix, str(binaries / "pg_basebackup"), "--dbname", source, "--pgdata", str(data)]
    subprocess.run([*copy, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"], check=True, cwd="/")
    log = (home / "log").open("wb")
    command = [*account.prefix, str(binaries / "postgres"), "-D", str(data), "-p", str(port)]
    with log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")


async def _execute(dsn: str, statement: str) -> None:
    session = await asyncpg.connect(dsn, timeout=10)
    try:
        await session.execute("SET default_transaction_read_only = off")
        await session.execute(statement)
    finally:
        session.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
