"""The files of a secured broker: its configuration, credentials of services, and enrolments of agents."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.bus.access.authority import AccessAuthority
from slackwater.bus.access.flood_guard import FloodGuard
from slackwater.bus.access.floods import Holds
from slackwater.bus.access.issuer import AccessIssuer, connect_system
from slackwater.bus.access.service_accounts import ServiceAccounts
from slackwater.bus.access.ticket_guard import TicketGuard
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.permissions import PartSubjects, agent_user, users_of
from slackwater.bus.admin.streams import load
from slackwater.bus.connect.access import NatsAccess
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.cli.composition import IN_CLUSTERS, PARTS
from slackwater.model.errors import InvalidInput, Misconfigured, Unavailable
from slackwater.runtime.embedded_nats import LIMITS
from slackwater.runtime.loopback import is_loopback
from slackwater.runtime.service_list import service_list
from slackwater.telemetry.metrics import process_meters

SERVER = (
    """\
# Written by `slackwater nats-config`. The services declare the streams; access.conf has accounts and permissions.
host: {host}
port: {port}
"""
    + LIMITS
    + 'include "access.conf"\n'
)
CLUSTER = """\
# One broker of several, in place of nats-server.conf. SERVER_NAME is in its environment, --routes names the others.
include "nats-server.conf"
server_name: $SERVER_NAME
cluster {{
  name: slackwater
  listen: "0.0.0.0:6222"
  no_advertise: true
  tls {{
    cert_file: {certificate}
    key_file: {key}
    ca_file: {authority}
    verify: true
  }}
}}
"""
"""Without `no_advertise` clients learn addresses that no certificate names."""


ACCESS = "access"
"""The user of `slackwater cluster-access`, which reviews agents and is no service."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The broker's certificate, and the authority whose client certificates it requires (None: it requires none)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def block(self) -> str:
        """The TLS block of the broker's configuration."""
        lines = [f"  cert_file: {_quoted(self.certificate)}", f"  key_file: {_quoted(self.key)}"]
        if self.client_ca is not None:
            lines += [f"  ca_file: {_quoted(self.client_ca)}", "  verify: true"]
        return "\n".join(["tls {", *lines, "}", ""])

    def cluster(self, authority: Path) -> str:
        """The configuration of a broker of several. `authority` is that of all their certificates."""
        return CLUSTER.format(
            certificate=_quoted(self.certificate), key=_quoted(self.key), authority=_quoted(authority)
        )


def registry() -> tuple[list[PartSubjects], PartSubjects]:
    """The services that share the broker's main account, and the agent, as their packages declare them."""
    parts = [_part(part.name) for part in (*PARTS, *IN_CLUSTERS)]
    services = [part for part in parts if part.name != "agent"]
    reviews = PartSubjects(ACCESS, (), (), reviews_access=True)
    return [*services, reviews], next(part for part in parts if part.name == "agent")


def write_config(folder: Path, nodes: Sequence[str], host: str, port: int, tls: Certificates | None) -> Path:
    """Write all files below `folder`, readable by its owner only; existing keys and credentials are kept.

    Raises: InvalidInput for a node that is empty or named twice, or for a host beyond this machine without TLS.
    """
    if len(set(nodes)) != len(nodes) or not all(nodes):
        raise InvalidInput("node: a name is empty or given twice; give each node exactly once", field="node")
    if tls is None and not is_loopback(host):
        raise InvalidInput(
            f"host: {host} is not loopback, and reports must not be sent in clear text; give --certificate and --key",
            field="host",
        )
    services, agent = registry()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = AccessAuthority.of_seed(_once(folder / "access.seed", AccessAuthority.new_seed))
    credentials = {
        user: UserCredentials.parse(
            _once(folder / "credentials" / f"{user}.creds", lambda user=user: authority.service_credentials(user).text)  # type: ignore[misc]
        )
        for user in users_of(services)
    }
    config = folder / "access.conf"
    before = config.read_text(encoding="utf-8") if config.exists() else ""
    accounts = authority.config(load(), services, agent, credentials, folder.absolute() / "accounts", before)
    _write(config, accounts + (tls.block() if tls is not None else ""))
    for node in nodes:
        _once(folder / "agents" / f"{agent_user(node)}.creds", lambda node=node: authority.ticket(node).text)  # type: ignore[misc]
    server = SERVER.format(host=json.dumps(host), port=port, store=_quoted(folder / "store"))
    _write(folder / "nats-server.conf", server)
    return folder / "nats-server.conf"


@asynccontextmanager
async def issuing_access(bus: NatsBus, url: str, access: NatsAccess) -> AsyncIterator[None]:
    """Give agents credentials, and hold off those that flood, while the context is open, in the process that has the
    authority's seed.

    Raises Misconfigured for a seed that is none, Unavailable without the broker.
    """
    if (authority := _authority_of(access)) is None:
        yield
        return
    blocks = await bus.load_blocks()
    async with connect_system(url, access, authority) as system:
        _, agent = registry()
        holds = Holds()
        issuer = AccessIssuer(authority, agent, bus.client, system, lambda: blocks, holds)
        metrics, changes = BusMetrics(process_meters()), asyncio.Lock()
        guard = FloodGuard(system, holds, issuer.store, metrics)
        tickets = TicketGuard(authority, system, metrics, changes)
        async with (
            issuer.running(),
            ServiceAccounts(authority, system, changes).running(),
            guard.running(),
            tickets.running(),
        ):
            yield


async def put_services_in_force(url: str, access: NatsAccess) -> None:
    """Put the accounts of services in force before the process that has the authority's seed connects as one of them:
    its file may be newer than what the broker has in memory, and no other process would do it. Without the broker
    nothing is done. Raises Misconfigured for a seed that is none.
    """
    if (authority := _authority_of(access)) is None:
        return
    with suppress(Unavailable):  # the service's own connection waits for the broker, and says what is wrong
        async with connect_system(url, access, authority) as system:
            await ServiceAccounts(authority, system, asyncio.Lock()).put_in_force()


def _authority_of(access: NatsAccess) -> AccessAuthority | None:
    """Raises Misconfigured."""
    if access.authority_file is None:
        return None
    try:
        return AccessAuthority.of_seed(access.authority_file.read_text(encoding="ascii"))
    except OSError as error:
        raise Misconfigured(
            f"SLACKWATER_NATS_AUTHORITY_FILE: {access.authority_file}: {error.strerror}", field="authority_file"
        ) from None


def names_of_nodes(named: Sequence[str] | None, file: Path | None) -> list[str]:
    """The nodes given one by one and in a file, one name per line. Raises InvalidInput for a file that cannot be
    read.
    """
    try:
        lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--nodes-file: {file}: {error}", field="nodes_file") from None
    return [*(named or []), *(line.strip() for line in lines if line.strip() and not line.startswith("#"))]


def _once(file: Path, make: Callable[[], str]) -> str:
    if not file.exists():
        _write(file, make().strip() + "\n")
    return file.read_text(encoding="utf-8").strip()


def _write(file: Path, text: str) -> None:
    """Write a file atomically; other accounts can never read it."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    draft = file.with_name(f".{file.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    draft.replace(file)


def _part(name: str) -> PartSubjects:
    package = importlib.import_module(f"slackwater.{name}")
    spec = service_list().deployed.get(name)
    rights = spec.rights if spec is not None else ()
    return PartSubjects(
        name,
        load().consumed(name, package.CONSUMES),
        tuple(package.PUBLISHES),
        "read_streams" in rights,
        "operate" in rights,
        "issue_access" in rights,
    )


def _quoted(path: Path) -> str:
    return json.dumps(str(path.absolute()), ensure_ascii=False)
