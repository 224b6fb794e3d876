"""The authority of a broker: signs its accounts, credentials of services, and enrolments of agents.

All keys of accounts follow from one seed. The broker's configuration names no agent.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slackwater.bus.access.accounts import (
    CLUSTER,
    ENROLMENT,
    SYSTEM,
    TICKET,
    Claims,
    agent_claims,
    control_claims,
    enrolment_claims,
    system_claims,
    user_claims,
)
from slackwater.bus.access.keys import KeyKind, NatsKey
from slackwater.bus.access.tokens import UserCredentials, claims_of, is_signed_by, signed
from slackwater.bus.admin.permissions import CONTROL, PartSubjects, users_of
from slackwater.bus.admin.streams import Topology
from slackwater.bus.connect.access import agent_user, inbox_of
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import subject_token
from slackwater.model.errors import Misconfigured

CREDENTIAL_SECONDS = 3 * 86_400
"""How long credentials of an agent are valid. It renews them after a third of it."""
CLAIMS_UPDATE = "$SYS.REQ.CLAIMS.UPDATE"
ACCOUNTS_TRAFFIC = "$SYS.REQ.ACCOUNT.PING.STATZ"
CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ"
NEW_CONNECTIONS = "$SYS.ACCOUNT.*.CONNECT"
SYSTEM_USER = "issuer"
CONFIG = """\
# Made by `slackwater` from the registry; do not edit, make it again. Agents are not in it: their accounts are below
# `dir`, signed by the operator's key.
operator: "{operator}"
system_account: {system}
resolver {{
  type: full
  dir: {folder}
  interval: "2m"
}}
resolver_preload {{
{accounts}
}}
"""
_PRELOADED = re.compile(r'^ +(A[A-Z2-7]{55}): "([^"]+)"$', re.MULTILINE)
_OPERATOR = re.compile(r'^operator: "([^"]+)"$', re.MULTILINE)


def claims_lookup(account: str) -> str:
    """Returns the subject on which the broker answers with a stored account."""
    return f"$SYS.REQ.ACCOUNT.{account}.CLAIMS.LOOKUP"


def account_info(account: str) -> str:
    """Returns the subject on which the broker answers with what it has of an account in memory."""
    return f"$SYS.REQ.ACCOUNT.{account}.INFO"


def account_connections(account: str) -> str:
    """Returns the subject on which each server answers with the connections of an account."""
    return f"$SYS.REQ.ACCOUNT.{account}.CONNZ"


def kick(server: str) -> str:
    """Returns the subject on which a server is told to close a connection."""
    return f"$SYS.REQ.SERVER.{server}.KICK"


@dataclass(frozen=True, slots=True, repr=False)
class AccessAuthority:
    """Signs with keys that follow from the operator's."""

    operator: NatsKey
    now: Callable[[], float] = time.time

    @classmethod
    def of_seed(cls, seed: str) -> AccessAuthority:
        """Raises Misconfigured for a seed that is none."""
        return cls(NatsKey.parse(seed))

    @staticmethod
    def new_seed() -> str:
        return NatsKey.generate(KeyKind.OPERATOR).seed

    def account(self, name: str) -> NatsKey:
        """Returns the key of an account: SYSTEM, CONTROL, ENROLMENT, or of an agent by its user."""
        return self.operator.derive(KeyKind.ACCOUNT, f"account {name}")

    def service_credentials(self, user: str) -> UserCredentials:
        """Returns new credentials of a user of CONTROL. They are valid while the configuration has their signer."""
        return self._issue(NatsKey.generate(KeyKind.ACCOUNT), user, user_claims(self.account(CONTROL).public))

    def ticket(self, node: str) -> UserCredentials:
        """Returns credentials that let the agent of one node ask for access, and nothing else."""
        return self._issue(self._enrolment(TICKET), subject_token(node), user_claims(self.account(ENROLMENT).public))

    def cluster_ticket(self) -> UserCredentials:
        """Returns credentials with which agents of a cluster ask for access; the cluster proves their node."""
        return self._issue(self._enrolment(CLUSTER), CLUSTER, user_claims(self.account(ENROLMENT).public))

    def is_valid_ticket(self, ticket: UserCredentials) -> bool:
        """Returns whether this authority signed it."""
        return ticket.signer in {self._enrolment(kind).public for kind in (TICKET, CLUSTER)}

    def issuer_credentials(self) -> UserCredentials:
        """Returns credentials that let this process change accounts of the broker, read those of services, ask what
        each has sent and what connections do, and close connections.
        """
        accounts = [self.account(name).public for name in (CONTROL, ENROLMENT)]
        lookups = [ask(account) for account in accounts for ask in (claims_lookup, account_info)]
        lookups += [account_connections(self.account(ENROLMENT).public), kick("*")]
        questions = [CLAIMS_UPDATE, ACCOUNTS_TRAFFIC, CONNECTIONS, *lookups]
        claims = user_claims(None, questions, [f"{inbox_of(SYSTEM_USER)}.>", NEW_CONNECTIONS])
        return self._issue(self.account(SYSTEM), SYSTEM_USER, claims)

    def agent_account(
        self, agent: PartSubjects, node: str, block: AgentBlockChanged | None = None, *, is_held: bool = False
    ) -> str:
        """Returns the signed account of an agent. What was issued before its last block changed is revoked; one that is
        held may have no connection meanwhile.
        """
        claims = agent_claims(
            agent,
            node,
            self.account(CONTROL).public,
            refused_before=None if block is None else int(block.since.timestamp()),
            is_cut_off=is_held or (block is not None and block.blocked),
        )
        name = agent_user(node)
        return signed(self.operator, self.account(name).public, name, claims, int(self.now()))

    def signed_again(self, account: str) -> str:
        """Returns a token with the claims of an account of this authority, newer by a second, so that the next
        configuration is newer still. Raises Misconfigured for another's.
        """
        body = claims_of(account)
        if not is_signed_by(self.operator, account):
            raise Misconfigured(f"account {body['name']} is not signed by the key of SLACKWATER_NATS_AUTHORITY_FILE")
        return signed(self.operator, body["sub"], body["name"], body["nats"], body["iat"] + 1)

    def with_refused_tickets(self, account: str, tickets: Mapping[str, int]) -> str:
        """Returns the account of enrolments in which these tickets are refused, each until its time in seconds, and
        those no more whose time is over; the same token if that changes nothing. Raises Misconfigured for another's.
        """
        body, now = claims_of(account), int(self.now())
        if not is_signed_by(self.operator, account):
            raise Misconfigured(f"account {body['name']} is not signed by the key of SLACKWATER_NATS_AUTHORITY_FILE")
        before = body["nats"].get("revocations") or {}
        refused = {ticket: until for ticket, until in {**before, **tickets}.items() if until > now}
        if refused == before:
            return account
        claims = {name: claim for name, claim in body["nats"].items() if name != "revocations"}
        claims |= {"revocations": refused} if refused else {}
        return signed(self.operator, body["sub"], body["name"], claims, max(now, body["iat"] + 1))

    def agent_token(self, node: str, public_key: str) -> str:
        """Returns the token of an agent, whose permissions are those of its account."""
        name, now = agent_user(node), int(self.now())
        return signed(self.account(name), public_key, name, user_claims(), now, now + CREDENTIAL_SECONDS)

    def config(
        self,
        topology: Topology,
        services: Sequence[PartSubjects],
        agent: PartSubjects,
        credentials: Mapping[str, UserCredentials],
        folder: Path,
        before: str = "",
    ) -> str:
        """Returns the broker's configuration. `credentials` has those of every user of CONTROL, `folder` is where the
        broker keeps accounts, `before` the configuration that is replaced: what is the same in it stays, and what
        differs is newer.
        """
        control = self.account(CONTROL)
        signers = {user: credentials[user].signer for user in users_of(services)}
        enrolment = {kind: self._enrolment(kind).public for kind in (TICKET, CLUSTER)}
        accounts: dict[str, Claims] = {
            SYSTEM: system_claims(),
            CONTROL: control_claims(topology, services, agent, signers),
            ENROLMENT: enrolment_claims(control.public, enrolment),
        }
        known = dict(_PRELOADED.findall(before))
        lines = []
        for name, claims in accounts.items():
            key = self.account(name).public
            lines.append(f'  {key}: "{self._renewed(key, name, claims, known.get(key))}"')
        system = self.account(SYSTEM).public
        operator = {"type": "operator", "version": 2, "system_account": system}
        last = _OPERATOR.search(before)
        return CONFIG.format(
            operator=self._renewed(self.operator.public, "slackwater", operator, last[1] if last else None),
            system=system,
            folder=json.dumps(str(folder), ensure_ascii=False),
            accounts="\n".join(lines),
        )

    def _renewed(self, subject: str, name: str, claims: Claims, last: str | None) -> str:
        """Returns the last token if it says the same, else a newer one: the broker keeps the newest."""
        issued_at = int(self.now())
        if last is not None:
            before = claims_of(last)
            if before["nats"] == claims and before["iss"] == self.operator.public:
                return last
            issued_at = max(issued_at, before["iat"] + 1)
        return signed(self.operator, subject, name, claims, issued_at)

    def _enrolment(self, kind: str) -> NatsKey:
        return self.operator.derive(KeyKind.ACCOUNT, f"enrolment {kind}")

    def _issue(self, signer: NatsKey, name: str, claims: Claims) -> UserCredentials:
        key = NatsKey.generate(KeyKind.USER)
        return UserCredentials(signed(signer, key.public, name, claims, int(self.now())), key)
