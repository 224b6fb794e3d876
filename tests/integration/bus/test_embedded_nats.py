from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.nats_server import purge_broker

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.model.errors import Unavailable
from slackwater.runtime.embedded_nats import EmbeddedNats, find_nats_server


async def test_two_servers_live_side_by_side_on_free_ports(tmp_path: Path) -> None:
    one, two = EmbeddedNats(tmp_path / "one"), EmbeddedNats(tmp_path / "two")
    try:
        assert await one.start() != await two.start()
        for server in (one, two):
            async with connect_bus(server.url, name="test") as bus:
                assert await bus.connected()
    finally:
        await one.stop()
        await two.stop()
    assert (one.pid, two.pid) == (None, None)


async def test_many_that_begin_at_once_on_an_empty_broker_declare_the_same_streams(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    topology = load()
    large = topology.streams["USAGE"].model_copy(update={"max_bytes": 600_000_000})  # there is room for one of them
    topology = topology.model_copy(update={"streams": topology.streams | {"USAGE": large}})
    try:
        for _ in range(5):
            opened = [connect_bus(server.url, name=f"test-{number}", topology=topology) for number in range(8)]
            buses = await asyncio.gather(*(one.__aenter__() for one in opened))
            assert all([await bus.connected() for bus in buses])
            await purge_broker(buses[0])
            await asyncio.gather(*(one.__aexit__(None, None, None) for one in opened))
    finally:
        await server.stop()


async def test_start_and_stop_may_be_repeated_and_keep_the_port(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    first = await server.start()
    assert await server.start() == first
    await server.stop()
    await server.stop()
    assert await server.start() == first
    await server.stop()


async def test_a_path_may_hold_spaces_quotes_and_any_letters(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path / 'Späße mit "Wörtern" 水')
    await server.start()
    try:
        async with connect_bus(server.url, name="test") as bus:
            assert await bus.connected()
    finally:
        await server.stop()


async def test_the_server_is_not_in_the_process_group_that_gets_ctrl_c(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    try:
        assert server.pid is not None
        assert os.getpgid(server.pid) != os.getpgid(0)
    finally:
        await server.stop()


async def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    try:
        assert 'host: "127.0.0.1"' in (tmp_path / "nats-server.conf").read_text()
        assert "Listening for client connections on 127.0.0.1" in server.log_file.read_text()
    finally:
        await server.stop()


async def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the store should be")
    with pytest.raises(Unavailable, match="nats-server ended with status 1; end of"):
        await EmbeddedNats(tmp_path).start()


def test_the_binary_comes_from_the_wheel() -> None:
    assert Path(sys.prefix).resolve() in find_nats_server().parents


async def test_it_dies_with_a_parent_that_is_killed_and_the_next_start_heals_the_store(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import asyncio, pathlib, sys
        from slackwater.runtime.embedded_nats import EmbeddedNats
        async def main():
            server = EmbeddedNats(pathlib.Path(sys.argv[1]))
            await server.start()
            print(server.pid, flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(  # noqa: ASYNC220 - starting a process takes a millisecond
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert parent.stdout is not None
    pid = int(await asyncio.to_thread(parent.stdout.readline))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    async with asyncio.timeout(60):
        while _alive(pid):
            await asyncio.sleep(0.01)
    server = EmbeddedNats(tmp_path)
    async with connect_bus(await server.start(), name="test") as bus:
        assert await bus.connected()
    await server.stop()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def test_a_leftover_server_on_the_same_store_is_ended_before_the_next_starts(tmp_path: Path) -> None:
    leftover, server = EmbeddedNats(tmp_path), EmbeddedNats(tmp_path)
    await leftover.start()
    old = leftover.pid
    await server.start()
    try:
        assert old is not None
        assert leftover.pid is None
        assert server.pid not in (None, old)
    finally:
        await server.stop()
