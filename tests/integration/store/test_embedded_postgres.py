"""The embedded server starts anywhere, heals from anything, and touches nothing that is not its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import pytest

from slackwater.model.errors import Conflict, Unavailable
from slackwater.runtime import embedded_postgres
from slackwater.runtime.embedded_postgres import EmbeddedPostgres, installed_binaries


async def query(server: EmbeddedPostgres, statement: str = "SELECT 1") -> object:
    connection = await asyncpg.connect(server.dsn.rpartition("/")[0] + "/postgres")
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@pytest.fixture
def closed_directory(tmp_path: Path) -> Path:
    """Below a parent that only its owner may pass, as /root or `mktemp -d` are."""
    parent = tmp_path / "closed"
    parent.mkdir(mode=0o700)
    return parent / "state"


async def test_it_survives_stop_kill_and_a_stale_pid_file(closed_directory: Path) -> None:
    with EmbeddedPostgres(closed_directory) as server:
        port = server.port
        await query(server, "CREATE TABLE kept AS SELECT 42 AS value")
        server.stop()
        assert not server.running
        server.start()
        assert server.port == port
        assert await query(server, "SELECT value FROM kept") == 42
        server.kill()
        assert not server.running
        (closed_directory / "postgres" / "data" / "postmaster.pid").write_text(f"{os.getpid()}\nforeign\n")
        server.start()
        assert await query(server, "SELECT value FROM kept") == 42
        assert await query(server, "SHOW fsync") == "on"


def binaries_killed_at_start(folder: Path, kills: int) -> Path:
    """Returns a `bin` directory whose server is killed at its first `kills` starts, as the kernel does for memory."""
    installed, counter, binaries = installed_binaries(), folder / "starts", folder / "bin"
    binaries.mkdir()
    for binary in installed.iterdir():
        if binary.name != "postgres":
            (binaries / binary.name).symlink_to(binary)
    (binaries / "postgres").write_text(
        f'#!/bin/sh\nif [ "$1" = -D ]; then echo >> "{counter}"\n'
        f'[ "$(wc -l < "{counter}")" -gt {kills} ] || kill -KILL $$; fi\n'
        f'exec "{installed}/postgres" "$@"\n'
    )
    (binaries / "postgres").chmod(0o755)
    for path in (folder, counter):
        path.touch()
        path.chmod(0o777)
    return binaries


@pytest.mark.parametrize("kills", [2, 100])
def test_a_server_killed_while_it_starts_is_started_again(
    closed_directory: Path, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedPostgres(closed_directory)
    server.start()
    server.kill()
    with monkeypatch.context() as patched, TemporaryDirectory() as folder:
        binaries = binaries_killed_at_start(Path(folder), kills)
        patched.setattr(embedded_postgres, "installed_binaries", lambda: binaries)
        if kills > 2:
            with pytest.raises(Unavailable, match="was killed 5 times while it started; nothing committed is lost"):
                server.start()
        else:
            server.start()
            assert server.running
        starts = len((Path(folder) / "starts").read_text().splitlines())
    assert starts == min(kills + 1, 5)
    server.stop()
    server.start()
    server.stop()


async def test_only_loopback_is_listened_on_and_the_password_is_ours_alone(closed_directory: Path) -> None:
    with EmbeddedPostgres(closed_directory, durable=False) as server:
        assert await query(server, "SHOW listen_addresses") == "127.0.0.1"
        assert await query(server, "SHOW unix_socket_directories") == ""
        assert (closed_directory / "postgres" / "password").stat().st_mode & 0o777 == 0o600
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(f"postgresql://postgres:wrong@127.0.0.1:{server.port}/postgres")


def test_a_state_directory_in_use_is_refused_and_left_alone(closed_directory: Path) -> None:
    with EmbeddedPostgres(closed_directory, durable=False) as server:
        with pytest.raises(Conflict, match=f"process {os.getpid()}"):
            EmbeddedPostgres(closed_directory).start()
        assert server.running


def test_two_checkouts_run_side_by_side(tmp_path: Path) -> None:
    with (
        EmbeddedPostgres(tmp_path / "one", durable=False) as one,
        EmbeddedPostgres(tmp_path / "two", durable=False) as two,
    ):
        assert one.port != two.port
        two.stop()
        assert one.running


_OWNER = """
import sys, time
from pathlib import Path
from slackwater.runtime import embedded_postgres
from slackwater.runtime.embedded_postgres import EmbeddedPostgres, installed_binaries
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
server.start()
print(server._process.pid, flush=True)
time.sleep(600)
"""


def _owner(state: Path) -> tuple[subprocess.Popen[str], int]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(state)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    owner.stdout.close()
    return owner, pid


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def test_it_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner, pid = _owner(tmp_path / "state")
    owner.kill()
    owner.wait()
    while not _ended(pid):
        time.sleep(0.01)


async def test_an_orphan_that_did_not_end_is_stopped_at_the_next_start(tmp_path: Path) -> None:
    owner, pid = _owner(tmp_path / "state")
    os.kill(pid, signal.SIGSTOP)  # so that it cannot follow its owner
    owner.kill()
    owner.wait()
    assert not _ended(pid)
    with EmbeddedPostgres(tmp_path / "state", durable=False) as server:
        assert _ended(pid)
        assert await query(server) == 1
