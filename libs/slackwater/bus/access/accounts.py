"""The accounts of a broker as claims: CONTROL of the services, one of each agent, and that of agents without access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from slackwater.bus.admin.permissions import (
    BACKUP,
    ENROL,
    RESTORE,
    REVIEW,
    PartSubjects,
    agent_exports,
    agent_imports,
    agent_subscriptions,
    backup_subjects,
    restore_subjects,
    service_subjects,
    service_subscriptions,
)
from slackwater.bus.admin.streams import Topology
from slackwater.bus.connect.access import AGENT_MESSAGE_BYTES, agent_user, inbox_of

SYSTEM: Final = "SYSTEM"
ENROLMENT: Final = "ENROLMENT"
TICKET, CLUSTER = "ticket", "cluster"
"""Users of the account ENROLMENT: one for each node, named after it, and one for all agents of a cluster."""
AGENT_CONNECTIONS, AGENT_SUBSCRIPTIONS = 8, 64
"""Beside AGENT_MESSAGE_BYTES of one message: connections of an agent's account, and subscriptions of each. It has two
with some ten, and twice that while it reconnects.
"""
ENROLMENT_CONNECTIONS, ENROLMENT_BYTES = 1000, 16_384
"""Of all agents together that have no access yet."""
ANSWER_SECONDS: Final = 60
"""A service may answer a request once, for so long."""
Claims = dict[str, Any]
_FREE: Mapping[str, int | bool] = {
    **dict.fromkeys(("subs", "conn", "leaf", "imports", "exports", "data", "payload"), -1),
    "wildcards": True,
}
_STORE = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
_USER = {"subs": -1, "data": -1, "payload": -1}
_NANOSECONDS = 1_000_000_000


def system_claims() -> Claims:
    """Returns the account of the broker itself."""
    return _account({})


def control_claims(
    topology: Topology, services: Sequence[PartSubjects], agent: PartSubjects, signers: Mapping[str, str]
) -> Claims:
    """Returns the account of the services. `signers` has a public key for each user: what it signs has that user's
    permissions, and no credentials have any of their own.
    """
    publishes = {part.name: service_subjects(part, topology) for part in services}
    publishes |= {BACKUP: backup_subjects(topology), RESTORE: restore_subjects(topology)}
    subscribes = {part.name: service_subscriptions(part) for part in services}
    answering = {part.name for part in services if part.issues_access or part.reviews_access}
    scopes = []
    for user, subjects in publishes.items():
        template = _permissions(subjects, [f"{inbox_of(user)}.>", *subscribes.get(user, ())]) | _USER
        if user in answering:
            template["resp"] = {"max": 1, "ttl": ANSWER_SECONDS * _NANOSECONDS}
        scopes.append(_scope(signers[user], user, template))
    return _account(_STORE, exports=[_export(export) for export in agent_exports(agent)], signing_keys=scopes)


def enrolment_claims(control: str, signers: Mapping[str, str]) -> Claims:
    """Returns the account of agents that have no access yet; `control` is the public key of CONTROL."""
    name = "{{name()}}"
    scopes = [
        _scope(signers[TICKET], TICKET, _permissions([f"{ENROL}.{name}"], [f"{enrolment_inbox(name)}.>"])),
        _scope(signers[CLUSTER], CLUSTER, _permissions([REVIEW], [f"{enrolment_inbox(CLUSTER)}.>"])),
    ]
    for scope in scopes:
        scope["template"] |= _USER
    imports = [_import("service", control, subject, subject) for subject in (f"{ENROL}.*", REVIEW)]
    limits = {"conn": ENROLMENT_CONNECTIONS, "subs": 4, "payload": ENROLMENT_BYTES}
    return _account(limits, imports=imports, signing_keys=scopes)


def agent_claims(
    agent: PartSubjects, node: str, control: str, *, refused_before: int | None = None, is_cut_off: bool = False
) -> Claims:
    """Returns the account of the agent of `node`.

    `refused_before`: credentials issued until then, in seconds, are revoked. One that is cut off may have no
    connection.
    """
    imports, receives = agent_imports(agent, node), agent_subscriptions(agent, node)
    limits = {
        "conn": 0 if is_cut_off else AGENT_CONNECTIONS,
        "subs": AGENT_SUBSCRIPTIONS,
        "payload": AGENT_MESSAGE_BYTES,
    }
    claims = _account(
        limits,
        imports=[
            *(_import("service", control, subject, local) for subject, local in imports.items()),
            *(_import("stream", control, subject, subject) for subject in receives),
        ],
        default_permissions=_permissions(sorted(imports.values()), [f"{inbox_of(agent_user(node))}.>", *receives]),
    )
    return claims if refused_before is None else claims | {"revocations": {"*": refused_before}}


def user_claims(account: str | None = None, publishes: Sequence[str] = (), subscribes: Sequence[str] = ()) -> Claims:
    """Returns the claims of a user. With `account` the signing key is one of that account and gives the permissions."""
    claims: Claims = {"type": "user", "version": 2}
    if account is not None:
        return claims | {"issuer_account": account}
    return claims | _USER | (_permissions(publishes, subscribes) if publishes else {"pub": {}, "sub": {}})


def enrolment_inbox(name: str) -> str:
    """Returns the inbox prefix of a user of ENROLMENT."""
    return f"_INBOX.enrol.{name}"


def _account(limits: Mapping[str, int], **other: object) -> Claims:
    return {"type": "account", "version": 2, "limits": {**_FREE, **limits}, **other}


def _permissions(publishes: Sequence[str], subscribes: Sequence[str]) -> Claims:
    return {"pub": {"allow": list(publishes)}, "sub": {"allow": list(subscribes)}}


def _scope(signer: str, role: str, template: Claims) -> Claims:
    return {"kind": "user_scope", "key": signer, "role": role, "template": template}


def _export(export: Mapping[str, str]) -> Claims:
    kind = "service" if "service" in export else "stream"
    claims: Claims = {"name": export[kind], "subject": export[kind], "type": kind}
    if "response_type" in export:
        claims["response_type"] = export["response_type"].capitalize()
    return claims


def _import(kind: str, account: str, subject: str, local: str) -> Claims:
    claims = {"account": account, "subject": subject, "type": kind}
    if local == subject:
        return claims
    tokens = iter(range(1, local.count("*") + 1))  # where the local name has a wildcard, the claim has its number
    return claims | {
        "local_subject": ".".join(f"${next(tokens)}" if part == "*" else part for part in local.split("."))
    }
