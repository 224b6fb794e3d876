"""Credentials of agents without a service that issues them, for tests of what the broker lets an agent do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slackwater.bus.access.authority import AccessAuthority
from slackwater.bus.access.issuer import connect_system, store_account
from slackwater.bus.access.keys import KeyKind, NatsKey
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.permissions import PartSubjects
from slackwater.bus.connect.access import NatsAccess, agent_user

ANSWER_SECONDS = 60.0


async def admit(url: str, access: NatsAccess, folder: Path, agent: PartSubjects, nodes: Iterable[str]) -> None:
    """Store accounts of agents at the broker, and write `credentials/<user>.creds` below a folder of `nats-config`.
    `access` has the TLS of the broker.
    """
    authority = AccessAuthority.of_seed((folder / "access.seed").read_text())
    async with connect_system(url, access, authority) as system:
        for node in nodes:
            await store_account(system, authority.agent_account(agent, node), ANSWER_SECONDS)
            key = NatsKey.generate(KeyKind.USER)
            credentials = UserCredentials(authority.agent_token(node, key.public), key)
            (folder / "credentials" / f"{agent_user(node)}.creds").write_text(credentials.text)
