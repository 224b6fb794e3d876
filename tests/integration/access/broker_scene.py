"""A real nats-server that runs with a generated configuration, with TLS, two agents and every service."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import trustme
from tests.support.agent_access import admit

from slackwater.bus.access.authority import AccessAuthority
from slackwater.bus.access.enrolment import Enrolment
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.permissions import agent_user
from slackwater.bus.admin.streams import load
from slackwater.bus.connect.access import AGENT_API_PREFIX, NatsAccess, read_credentials
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.cli.broker import Certificates, registry, write_config
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.service_list import service_names

NODES = ("n.1", "n.2")
SERVICES = service_names()


@dataclass(frozen=True)
class Pki:
    """An authority, and files of what it signed."""

    authority: trustme.CA
    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str, common_name: str | None = None) -> tuple[Path, Path]:
        made = self.authority.issue_cert(name, common_name=common_name)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        made.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
        return certificate, key


def pki(folder: Path) -> Pki:
    folder.mkdir(parents=True)
    made = Pki(trustme.CA(), folder)
    made.authority.cert_pem.write_to_path(made.ca)  # once: a broker that reads its configuration again reads it, too
    return made


@dataclass
class Broker:
    server: EmbeddedNats
    folder: Path
    trusted: Pki
    url: str = ""

    @property
    def authority(self) -> AccessAuthority:
        return AccessAuthority.of_seed((self.folder / "access.seed").read_text())

    def credentials(self, user: str) -> UserCredentials:
        return read_credentials(self.folder / "credentials" / f"{user}.creds")

    @cached_property
    def client(self) -> tuple[Path, Path]:
        """Certificate and key of all clients."""
        return self.trusted.issue("client.example")

    def tls(self) -> NatsAccess:
        return NatsAccess(ca=self.trusted.ca, certificate=self.client[0], key=self.client[1])

    def access(self, user: str, **other: Any) -> NatsAccess:
        """The access of a service, or of an agent of NODES."""
        return self.tls().model_copy(
            update={"credentials_file": self.folder / "credentials" / f"{user}.creds", **other}
        )

    def enrolment(self, node: str, state_dir: Path, **other: Any) -> Enrolment:
        """How the agent of a node gets its credentials."""
        ticket = self.folder / "agents" / f"{agent_user(node)}.creds"
        access = self.tls().model_copy(update={"enrolment_file": ticket})
        return Enrolment(access, self.url, node, state_dir, **other)

    def agent(self, node: str, **other: Any) -> AbstractAsyncContextManager[NatsBus]:
        access = self.access(agent_user(node), api_prefix=AGENT_API_PREFIX, **other)
        return connect_bus(self.url, name="agent", declares=False, access=access, wait_seconds=5)

    def service(self, name: str) -> AbstractAsyncContextManager[NatsBus]:
        return connect_bus(self.url, name=name, topology=load().only(name), access=self.access(name))


async def secured(folder: Path, *, declared: bool = True) -> Broker:
    """Started, with every stream and consumer declared by the services themselves."""
    trusted = pki(folder / "pki")
    certificate, key = trusted.issue("127.0.0.1")
    write_config(folder / "made", NODES, "127.0.0.1", 4222, Certificates(certificate, key, trusted.ca))
    server = EmbeddedNats(folder / "server", include=folder / "made" / "access.conf")
    broker = Broker(server, folder / "made", trusted)
    broker.url = await server.start()
    _, agent = registry()
    await admit(broker.url, broker.tls(), broker.folder, agent, NODES)
    for name in SERVICES if declared else ():
        async with broker.service(name):
            pass
    return broker
