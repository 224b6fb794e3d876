"""The embedded server starts anywhere, heals from anything, and touches nothing that is not its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from slackwater.model.errors import Conflict, Unavailable
from slackwater.runtime.embedded_postgres import EmbeddedPostgres


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


@pytest.mark.parametrize("kills", [2, 100])
def test_a_server_killed_while_it_starts_is_started_again(closed_directory: Path, kills: int) -> None:
    """As the kernel does for memory: within the recovery after a crash, again and again."""
    server = EmbeddedPostgres(closed_directory)
    server.start()
    server.kill()
    killed, ended = set[int](), threading.Event()

    def kill() -> None:
        while not ended.is_set() and len(killed) < kills:
            for entry in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    mine = (entry / "comm").read_text().strip() == "postgres"
                    if mine and (entry / "cwd").readlink().is_relative_to(closed_directory):
                        os.kill(int(entry.name), signal.SIGKILL)
                        killed.add(int(entry.name))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        if kills > 2:
            with pytest.raises(Unavailable, match="was killed 5 times while it started; nothing committed is lost"):
                server.start()
        else:
            server.start()
            assert server.running
    finally:
        ended.set()
        killer.join()
    assert len(killed) >= 2
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
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
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
