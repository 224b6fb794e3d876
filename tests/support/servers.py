"""The servers that tests use, selected by the variable SLACKWATER_TEST_SERVERS.

embedded                                    (or unset) PostgreSQL and nats-server from their wheels
containers                                  `postgres:18` and `nats:2`, started through testcontainers
postgresql://admin@host/db,nats://host:4222 external servers; databases are created, **streams are deleted**

Tests that kill or starve a server always start their own from the wheels.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from slackwater.model.errors import Misconfigured

VARIABLE = "SLACKWATER_TEST_SERVERS"
POSTGRES_IMAGE = "postgres:18"
NATS_IMAGE = "nats:2"

MEMORY = Path("/dev/shm")
ROOM_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Servers:
    """The source of a session's servers, with the addresses of external ones."""

    kind: Literal["embedded", "containers", "given"]
    postgres_dsn: str = ""
    nats_url: str = ""


def chosen(value: str) -> Servers:
    """Parses the value of the variable. Raises Misconfigured with the allowed values."""
    if value in ("", "embedded"):
        return Servers("embedded")
    if value == "containers":
        return Servers("containers")
    postgres, _, nats = value.partition(",")
    if postgres.startswith(("postgresql://", "postgres://")) and nats.startswith(("nats://", "tls://")):
        return Servers("given", postgres, nats)
    raise Misconfigured(
        f"{VARIABLE}: embedded, containers, or two addresses like postgresql://admin@host/db,nats://host:4222",
        field=VARIABLE,
    )


@pytest.fixture(scope="session")
def test_servers() -> Servers:
    """The servers that SLACKWATER_TEST_SERVERS selects."""
    return chosen(os.environ.get(VARIABLE, ""))


@pytest.fixture(scope="session")
def servers_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the session's own servers, in memory if there is room.

    They are emptied for every test, which waits for the disk: creating and deleting all streams took 0.12 to 0.15 s in
    memory and 0.2 to 2.6 s on a busy disk. Servers that tests kill use the disk.
    """
    if not _has_room(MEMORY):
        yield tmp_path_factory.mktemp("servers")
        return
    for left in MEMORY.glob(f"{_MARK}*"):  # left by a killed session
        if not Path(f"/proc/{left.name.split('-')[2]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix=f"{_MARK}{os.getpid()}-", dir=MEMORY))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


_MARK = "slackwater-tests-"


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM_BYTES
    except OSError:
        return False


@contextmanager
def postgres_container() -> Iterator[str]:
    """Runs PostgreSQL in a container during the context; yields the administrator's address."""
    from testcontainers.community.postgres import PostgresContainer

    container = PostgresContainer(POSTGRES_IMAGE, username="slackwater", password="slackwater", driver=None)
    with container as running:
        yield running.get_connection_url()


@contextmanager
def nats_container() -> Iterator[str]:
    """Runs nats-server with JetStream in a container during the context; yields its address."""
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    container = DockerContainer(NATS_IMAGE).with_command("-js").with_exposed_ports(4222)
    with container.waiting_for(LogMessageWaitStrategy("Server is ready")) as running:
        yield f"nats://{running.get_container_host_ip()}:{running.get_exposed_port(4222)}"
