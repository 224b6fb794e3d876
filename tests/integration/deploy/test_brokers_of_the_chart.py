"""Three brokers with the files and the arguments of the chart: they form a cluster over routes with certificates."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.faults.cluster import free_ports
from tests.kubernetes.helm import IS_THERE, WHY_NOT, rendered
from tests.support.agent_access import admit

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.access import AGENT_API_PREFIX, NatsAccess, agent_user
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.broker import registry
from slackwater.cli.secret_files import NATS_FOLDER, Deployment, write_secrets
from slackwater.runtime.embedded_nats import find_nats_server

pytestmark = [pytest.mark.skipif(not IS_THERE, reason=WHY_NOT), pytest.mark.timeout(180)]
LOCAL = "localhost"
_PAUSE_SECONDS = 0.1


def broker(values: dict[str, Any]) -> dict[str, Any]:
    (objects,) = rendered(values)
    (found,) = (one for one in objects if one["kind"] == "StatefulSet" and one["metadata"]["name"].endswith("nats"))
    spec: dict[str, Any] = found["spec"]
    return spec


def files(folder: Path, hosts: tuple[str, ...]) -> Path:
    write_secrets(Deployment(folder, ("n-1",), False, "postgres", hosts, False))
    return folder / "nats"


@contextmanager
def running(folder: Path, spec: dict[str, Any], secrets: Path) -> Iterator[list[int]]:
    """Each pod of the StatefulSet as a process; yields the ports of their monitors. Hosts and folders become local."""
    size = spec["replicas"]
    free = free_ports(3 * size)
    clients, routes, monitors = free[:size], free[size : 2 * size], free[2 * size :]
    (container,) = spec["template"]["spec"]["containers"]
    started = []
    try:
        for number in range(size):
            own = folder / f"broker-{number}"
            own.mkdir()
            for file in secrets.iterdir():
                text = file.read_text().replace(str(NATS_FOLDER), str(own)).replace('"/data', f'"{own}/data')
                text = text.replace("port: 4222", f"port: {clients[number]}").replace(":6222", f":{routes[number]}")
                (own / file.name).write_text(text)
            places = {str(NATS_FOLDER): str(own), "/tmp/nats.pid": f"{own}/pid"}
            args = [local(argument, places) for argument in container["args"]]
            args[args.index("--http_port") + 1] = str(monitors[number])
            args[args.index("--routes") + 1] = ",".join(f"nats-route://{LOCAL}:{port}" for port in routes)
            environment = os.environ | {"SERVER_NAME": f"slackwater-nats-{number}"}
            with (own / "log").open("w") as log:
                started.append(subprocess.Popen([find_nats_server(), *args], env=environment, stdout=log, stderr=log))
        yield monitors
    finally:
        for process in started:
            process.kill()
            process.wait()


def local(text: str, places: dict[str, str]) -> str:
    for place, here in places.items():
        text = text.replace(place, here)
    return text


def size_of(monitor: int) -> int:
    """The servers that know each other in JetStream, as one of them says."""
    try:
        with urlopen(f"http://{LOCAL}:{monitor}/jsz", timeout=2) as answer:
            found = json.load(answer).get("meta_cluster", {})
    except OSError:
        return 0
    return int(found.get("cluster_size", 0)) if found.get("leader") else 0


async def test_three_brokers_meet_and_refuse_a_route_of_another_authority(tmp_path: Path) -> None:
    spec = broker({"nats": {"replicas": 3}})
    secrets = files(tmp_path / "secrets", (LOCAL,))
    with running(tmp_path, spec, secrets) as monitors:
        while [await asyncio.to_thread(size_of, monitor) for monitor in monitors] != [3, 3, 3]:
            await asyncio.sleep(_PAUSE_SECONDS)
        await an_agent_that_one_admits_logs_in_at_another(tmp_path)
        async with services_bus(tmp_path) as bus:
            while (await bus.jetstream.stream_info("STATE")).config.num_replicas != 3:
                await asyncio.sleep(_PAUSE_SECONDS)
            port = int((tmp_path / "broker-0/cluster.conf").read_text().split('listen: "0.0.0.0:')[1].split('"')[0])
        foreign = files(tmp_path / "foreign", (LOCAL,))
        (foreign / "ca.crt").write_text((secrets / "ca.crt").read_text())  # it trusts them, and they do not trust it
        single = foreign / "cluster.conf"
        single.write_text(single.read_text().replace(str(NATS_FOLDER), str(foreign)).replace("6222", "-1"))
        (foreign / "nats-server.conf").write_text(f'store_dir: "{foreign}"\nport: -1\n')
        command = [find_nats_server(), "--config", single, "--routes", f"nats-route://{LOCAL}:{port}"]
        environment = os.environ | {"SERVER_NAME": "stranger"}
        stranger = await asyncio.create_subprocess_exec(*command, env=environment, stderr=subprocess.DEVNULL)
        try:
            while "signed by unknown authority" not in (tmp_path / "broker-0/log").read_text():
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            stranger.kill()
            await stranger.wait()
        assert await asyncio.to_thread(size_of, monitors[0]) == 3


@asynccontextmanager
async def services_bus(folder: Path) -> AsyncIterator[Any]:
    access = NatsAccess(
        credentials_file=folder / "secrets/colocation/nats.creds", ca=folder / "secrets/colocation/ca.crt"
    )
    url, topology = url_of(folder, 0), load().only("colocation")
    async with connect_bus(url, name="test", topology=topology, access=access, wait_seconds=60) as bus:
        yield bus


def url_of(folder: Path, number: int) -> str:
    port = (folder / f"broker-{number}/nats-server.conf").read_text().split("port: ")[1].split("\n")[0]
    return f"tls://{LOCAL}:{port}"


async def an_agent_that_one_admits_logs_in_at_another(folder: Path) -> None:
    """The brokers exchange accounts themselves."""
    _, agent = registry()
    made = folder / "secrets/ingestion"
    (made / "credentials").mkdir()
    await admit(url_of(folder, 0), NatsAccess(ca=made / "ca.crt"), made, agent, ["n-2"])
    own = made / "credentials" / f"{agent_user('n-2')}.creds"
    for number in (1, 2):
        access = NatsAccess(credentials_file=own, ca=made / "ca.crt", api_prefix=AGENT_API_PREFIX)
        connecting = connect_bus(url_of(folder, number), name="agent", declares=False, access=access, wait_seconds=60)
        async with connecting as bus:
            assert await bus.connected()


def test_one_broker_is_as_before() -> None:
    spec = broker({})
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["serviceName"] == "slackwater-nats"
    assert "podManagementPolicy" not in spec
    assert container["args"][:2] == ["--config", "/etc/nats/nats-server.conf"]
    assert "--routes" not in container["args"]
    assert "SERVER_NAME" not in {one["name"] for one in container["env"]}
