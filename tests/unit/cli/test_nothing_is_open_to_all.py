"""Every place where a process of ours listens, and every server it uses: nothing beyond loopback without a proof."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from slackwater.agent.edge.exposition import PATHS, exposing
from slackwater.agent.settings import AgentSettings
from slackwater.bus.connect.access import NatsAccess
from slackwater.cli.single_service import refuse_a_database_open_to_all, refuse_other_forms
from slackwater.model.errors import Misconfigured
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.http import HttpServer
from slackwater.runtime.rpc import RpcServer
from slackwater.runtime.settings import HttpSettings, RpcSettings

ROOT = Path(__file__).resolve().parents[3]
EVERYBODY = "0.0.0.0"  # noqa: S104 - nothing listens here
LISTENING = {"listen", "start_server", "create_server", "add_insecure_port", "add_secure_port", "start_unix_server"}


async def over_http(tmp_path: Path) -> None:
    HttpServer(HttpSettings(host=EVERYBODY, port=0))


async def over_grpc(tmp_path: Path) -> None:
    RpcServer(RpcSettings(host=EVERYBODY, port=0), HttpSettings.local(), [], _no_checks)


async def of_the_agent(tmp_path: Path) -> None:
    async with exposing(AgentSettings(metrics_host=EVERYBODY, metrics_port=0), CollectorRegistry()):
        pass


LISTENERS: Mapping[str, Callable[[Path], Awaitable[None]] | None] = {
    "libs/slackwater/runtime/http.py": over_http,
    "libs/slackwater/runtime/rpc.py": over_grpc,
    "services/slackwater/agent/edge/exposition.py": of_the_agent,
    "libs/slackwater/store/tls_proxy.py": None,  # a socket in a folder that only its owner may enter
    "services/slackwater/agent/adapters/resource_plugins/directory.py": None,  # likewise
    "services/slackwater/agent/adapters/resource_plugins/pod_resources.py": None,  # a socket of its setting
    "services/slackwater/agent/adapters/resource_plugins/server.py": None,  # a socket in the folder of a manager
    "services/slackwater/demo/programs/service.py": None,  # 127.0.0.1, and no setting for it
}
"""Every file that listens, with its setting that listens on all addresses."""


async def _no_checks() -> list[Any]:
    return []


def files_that_listen() -> set[str]:
    found = set()
    for top in ("libs", "services"):
        for file in (ROOT / top).rglob("*.py"):
            source = file.read_text(encoding="utf-8")
            if "testing" in file.parts or not any(name in source for name in LISTENING):
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Attribute) and node.attr in LISTENING:
                    found.add(str(file.relative_to(ROOT)))
    return found


def test_nothing_else_listens() -> None:
    assert files_that_listen() == LISTENERS.keys()
    assert 'listener.bind(("127.0.0.1", port))' in (ROOT / "services/slackwater/demo/programs/service.py").read_text()
    assert "asyncio.start_unix_server(accept, socket)" in (ROOT / "libs/slackwater/store/tls_proxy.py").read_text()


@pytest.mark.parametrize("listen", [one for one in LISTENERS.values() if one], ids=lambda one: str(one.__name__))
async def test_it_refuses_to_listen_on_all_addresses_without_authentication(
    listen: Callable[[Path], Awaitable[None]], tmp_path: Path
) -> None:
    with pytest.raises(Misconfigured, match=r"will not (listen|show metrics) on 0\.0\.0\.0"):
        await listen(tmp_path)


def test_the_embedded_servers_listen_here_only(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="will not listen"):
        EmbeddedNats(tmp_path, host=EVERYBODY)
    assert '"listen_addresses": "\'127.0.0.1\'"' in (ROOT / "libs/slackwater/runtime/embedded_postgres.py").read_text()


@pytest.mark.parametrize("url", ["nats://10.0.0.6:4222", "nats://broker:4222", "nats://0.0.0.0:4222"])
def test_a_broker_beyond_this_machine_needs_credentials_or_tls(url: str) -> None:
    with pytest.raises(Misconfigured, match="without credentials or TLS"):
        NatsAccess().options(url)
    NatsAccess(user="u", password=SecretStr("p")).options(url)
    NatsAccess().options(url.replace("nats://", "nats://u:p@"))
    NatsAccess().options(url.replace("nats://", "tls://"))
    NatsAccess().options("nats://127.0.0.1:4222")


@pytest.mark.parametrize(
    ("dsn", "environment", "refused"),
    [
        ("postgresql://u@10.0.0.7/db", {}, True),
        ("postgresql://10.0.0.7:5432/db", {}, True),
        ("postgresql://u@db.example/db?sslmode=prefer", {}, True),
        ("postgresql://u@127.0.0.1,10.0.0.7:5432/db", {}, True),
        ("postgresql:///db?host=10.0.0.7", {}, True),
        ("postgresql://u:p@10.0.0.7/db", {}, False),
        ("postgresql://u@10.0.0.7/db?sslmode=verify-full", {}, False),
        ("postgresql://u@10.0.0.7/db", {"PGPASSWORD": "p"}, False),
        ("postgresql://u@10.0.0.7/db", {"PGSSLMODE": "require"}, False),
        ("postgresql://u@127.0.0.1:5432/db", {}, False),
        ("postgresql://u@[::1]:5432/db", {}, False),
        ("postgresql://localhost/db", {}, False),
        ("postgresql:///db?host=/run/postgresql", {}, False),
        ("postgresql:///db", {}, False),
    ],
)
def test_a_database_beyond_this_machine_needs_a_password_or_tls(
    dsn: str, environment: Mapping[str, str], refused: bool
) -> None:
    if refused:
        with pytest.raises(Misconfigured, match="without a password or TLS") as error:
            refuse_a_database_open_to_all(dsn, environment)
        assert "10.0.0.7" not in error.value.message, "an address may hold a secret"
    else:
        refuse_a_database_open_to_all(dsn, environment)


def test_a_service_looks_at_both_before_it_connects() -> None:
    with pytest.raises(Misconfigured, match="PostgreSQL"):
        refuse_other_forms("postgresql://u@10.0.0.7/db", "nats://127.0.0.1:4222")


def test_what_an_agent_shows_has_its_roles() -> None:
    assert {path: str(needed) for path, needed in PATHS.items()} == {"/livez": "open", "/metrics": "viewer"}
