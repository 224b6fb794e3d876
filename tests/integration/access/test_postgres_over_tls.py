"""`sslmode` in the address of PostgreSQL counts for every connection that we make.

The PostgreSQL of the wheel is built without TLS and shows that we insist on it; what follows is shown on the one that
the machine has (Debian's has TLS), where there is one.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest
from broker_scene import Pki, pki
from sqlalchemy import text
from tests.support.postgres_server import FreshDatabase

from slackwater.cli.composition import SHARED
from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_postgres import installed_binaries
from slackwater.runtime.postgres_account import choose_account
from slackwater.store.backup import dump, load, state_hash, table_hashes
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema, migrate
from slackwater.store.provision import prepare_database, prepare_roles
from slackwater.store.tls_proxy import reachable

PASSWORD = "a password: with / signs"  # noqa: S105 - of this test
ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
PATIENCE_SECONDS = 60.0
SERVICES = [part.name for part in SHARED if part.has_schema]


def with_tls() -> Path | None:
    """The binaries of a PostgreSQL of this machine that was built with TLS."""
    for binaries in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (binaries / "initdb").exists():
            linked = subprocess.run(["ldd", str(binaries / "postgres")], check=False, capture_output=True, text=True)
            if "libssl" in linked.stdout:
                return binaries
    return None


@dataclass
class Encrypted:
    """A PostgreSQL that speaks TLS and nothing else."""

    port: int
    trusted: Pki

    def dsn(self, database: str = "slackwater", **more: str) -> str:
        given = {"sslmode": "verify-full", "sslrootcert": str(self.trusted.ca)} | more
        query = "&".join(f"{name}={quote(value)}" for name, value in given.items())
        return f"postgresql://postgres:{quote(PASSWORD, safe='')}@localhost:{self.port}/{database}?{query}"


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    binaries = with_tls()
    if binaries is None:
        pytest.skip("this machine has no PostgreSQL built with TLS (Debian: apt-get install postgresql)")
    folder = tmp_path_factory.mktemp("encrypted")
    trusted = pki(folder / "pki")
    certificate, key = trusted.issue("localhost")
    account = choose_account(folder, binaries, None)
    data = folder / "data"
    data.mkdir(mode=0o700)
    (folder / "password").write_text(f"{PASSWORD}\n")
    for path in (data, folder / "password"):
        shutil.chown(path, account.owner)
    initdb = ["-D", str(data), "-U", "postgres", "--pwfile", str(folder / "password"), "-A", "scram-sha-256"]
    made = [*account.prefix, str(binaries / "initdb"), *initdb, "--no-sync", "--no-locale", "-E", "UTF8"]
    subprocess.run(made, check=True, capture_output=True, cwd="/")
    (data / "pg_hba.conf").write_text("hostssl all all all scram-sha-256\n")
    for source, name in ((certificate, "server.crt"), (key, "server.key")):
        shutil.copy(source, data / name)
        shutil.chown(data / name, account.owner)
        (data / name).chmod(0o600)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    settings = ("ssl=on", "fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1", f"port={port}")
    command = [*account.prefix, str(binaries / "postgres"), "-D", str(data), *(f"-c{one}" for one in settings)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd="/", stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"ready to accept connections" not in (folder / "log").read_bytes():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield Encrypted(port, trusted)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(("mode", "reached"), [("prefer", True), ("require", False), ("verify-full", False)])
async def test_a_server_without_tls_is_not_spoken_to_where_tls_is_asked_for(
    fresh_database: FreshDatabase, mode: str, reached: bool
) -> None:
    dsn = f"{(await fresh_database(['console']))['console']}?sslmode={mode}"
    database = connect_database(dsn, "console", SystemClock())
    assert await database.ping() is reached
    await database.close()
    if reached:
        await migrate(dsn, Schema.of("console"))
        return
    for refused in (migrate(dsn, Schema.of("console")), prepare_database(dsn, [Schema.of("console")])):
        with pytest.raises(Unavailable):
            await refused
    with pytest.raises(Unavailable):
        await database.relay(never).backlog()


async def test_services_migrations_and_relays_work_over_verified_tls(encrypted: Encrypted) -> None:
    dsn = encrypted.dsn("services")
    addresses = await prepare_database(dsn, [Schema.of(name) for name in SERVICES])
    for service, address in addresses.items():
        assert "sslmode=verify-full" in address
        await migrate(address, Schema.of(service))
        database = connect_database(address, service, SystemClock())
        assert await database.ping()
        async with database.unit_of_work() as unit:
            assert (await unit.connection.execute(text(ENCRYPTED))).scalar() is True
        await database.relay(never).backlog()
        await database.close()


async def test_the_wrong_authority_the_wrong_name_and_plain_text_are_refused(
    encrypted: Encrypted, tmp_path: Path
) -> None:
    others = pki(tmp_path / "others")
    schemas = [Schema.of("console")]
    by_address = encrypted.dsn().replace("@localhost:", "@127.0.0.1:")
    for wrong in (encrypted.dsn(sslrootcert=str(others.ca)), by_address, encrypted.dsn(sslmode="disable")):
        with pytest.raises((Unavailable, asyncpg.InvalidAuthorizationSpecificationError)):
            await prepare_database(wrong, schemas)


async def test_a_client_without_tls_is_carried_over_verified_tls(encrypted: Encrypted) -> None:
    psql = installed_binaries() / "psql"
    async with reachable(encrypted.dsn("postgres")) as address:
        given = (str(psql), "--no-psqlrc", "-At", "-c", ENCRYPTED, address)
        process = await asyncio.create_subprocess_exec(*given, stdout=asyncio.subprocess.PIPE)
        answer, _ = await process.communicate()
    assert answer == b"t\n"
    refused = await asyncio.create_subprocess_exec(str(psql), encrypted.dsn("postgres"), stderr=asyncio.subprocess.PIPE)
    _, complaint = await refused.communicate()
    assert b"SSL" in complaint, "if this client has TLS now, the way round is needed no more"


async def test_a_backup_and_a_restore_go_over_verified_tls(encrypted: Encrypted, tmp_path: Path) -> None:
    services = ["console", "ensurance"]
    before, after = encrypted.dsn("before"), encrypted.dsn("after")
    await prepare_database(before, [Schema.of(name) for name in services])
    binaries = installed_binaries()
    taken = await dump(before, services, tmp_path / "dump", binaries)
    await prepare_roles(after, services)
    await load(after, services, tmp_path / "dump", binaries)
    assert state_hash(await table_hashes(after, services)) == state_hash(taken)


async def test_the_connection_of_a_backup_verifies_the_server(encrypted: Encrypted, tmp_path: Path) -> None:
    others = pki(tmp_path / "others")
    by_address = encrypted.dsn().replace("@localhost:", "@127.0.0.1:")
    for wrong in (encrypted.dsn(sslrootcert=str(others.ca)), by_address):
        async with reachable(wrong) as address:
            assert "sslmode" not in address
            with pytest.raises((OSError, asyncpg.PostgresError)):
                await asyncpg.connect(address, timeout=PATIENCE_SECONDS)
    async with reachable(encrypted.dsn("postgres")) as address:
        connection = await asyncpg.connect(address, timeout=PATIENCE_SECONDS)
        assert await connection.fetchval(ENCRYPTED) is True
        await connection.close()
    async with reachable("postgresql://u@db/x?sslmode=prefer") as address:
        assert address == "postgresql://u@db/x?sslmode=prefer"


async def never(event: object) -> None:
    raise AssertionError(event)
