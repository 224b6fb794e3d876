"""Publish and subscribe permissions on the broker, derived from the registry so that they cannot
drift from it.

Services share the account CONTROL, which holds the streams; each is one user with the subjects of
its CONSUMES and PUBLISHES. Every agent has its own account, which imports only its node's subjects
and, subscribe-only, the broadcasts of its node's partition.

Permissions inside one account would not suffice: the answer to a publish goes to the reply subject
that the sender names, and the broker does not check it. An agent could make the broker overwrite
another node's intents, or renew its lease. In its own account these subjects do not exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slackwater.bus.admin.streams import Topology, durable_names, event_named
from slackwater.bus.connect.access import AGENT_API_PREFIX, AGENT_MESSAGE_BYTES, API_PREFIX, agent_user, inbox_of
from slackwater.events import envelope
from slackwater.events.envelope import BroadcastPayload, Payload, agent_subjects, own_subjects, subjects_of
from slackwater.events.registry import BROADCASTS, EVENTS

CONTROL = "CONTROL"
AGENT_CONNECTIONS, AGENT_SUBSCRIPTIONS = 8, 64
"""Beside AGENT_MESSAGE_BYTES of one message: connections of an agent's account, and subscriptions of each. It has two
with some ten, and twice that while it reconnects.
"""
BACKUP, RESTORE = "backup", "restore"
"""Users that copy streams and that recreate them from a copy. They are separate because backups run
every night and restores only after a disaster. Neither reads or publishes a message, or changes an
existing stream.
"""


@dataclass(frozen=True, slots=True)
class PartSubjects:
    """A deployable as the registry knows it: its name, its CONSUMES and PUBLISHES, and its
    additional rights.

    `reads_streams`: reads every stream without a consumer in streams.yaml, to show and resume it.
    `operates`: has operator access (bus.desk), which lists consumers, reads single messages and
    replays dead letters, but never a command to a node.
    """

    name: str
    consumes: tuple[str, ...]
    publishes: tuple[str, ...]
    reads_streams: bool = False
    operates: bool = False


def service_subjects(part: PartSubjects, topology: Topology) -> list[str]:
    """Returns the subjects on which a service may publish or broadcast. It subscribes to its own
    inbox, where JetStream delivers requested messages, and to the broadcasts it consumes; of the
    parts in this account only a simulated fleet consumes any.
    """
    allowed = {envelope.subjects_by_service(_named(event), part.name) for event in part.publishes}
    allowed.add(f"{API_PREFIX}.INFO")
    for stream in topology.streams:
        allowed |= {f"{API_PREFIX}.STREAM.{verb}.{stream}" for verb in ("CREATE", "UPDATE", "INFO")}
    for payload in _kept(part.consumes):
        event, stream = payload.TYPE, payload.STREAM
        consumer = f"{part.name}-{_dashed(event)}"
        if consumer in topology.consumers:
            allowed |= {f"sw.v1.dlq.{consumer}"}
            spec = topology.consumers[consumer]
            for durable in durable_names(consumer, spec):
                allowed |= _of_durable(stream, durable)
                if topology.keeps_last(stream):  # what passed while its node was in quarantine is read at its release
                    allowed.add(f"{API_PREFIX}.STREAM.MSG.GET.{stream}")
                if spec.removes_unread:
                    allowed.add(f"{API_PREFIX}.STREAM.MSG.DELETE.{stream}")
                if spec.jump_seconds is not None:
                    allowed.add(f"{API_PREFIX}.CONSUMER.DELETE.{stream}.{durable}")
        else:
            allowed |= _of_reader(stream) | {f"sw.v1.dlq.{part.name}-replay-{_dashed(event)}"}
    if part.reads_streams:
        allowed |= {subject for stream in topology.streams for subject in _of_reader(stream)}
        allowed |= {f"{API_PREFIX}.STREAM.MSG.GET.{stream}" for stream in topology.streams}  # where each type ends
    if part.operates:
        allowed |= {f"{API_PREFIX}.CONSUMER.LIST.{stream}" for stream in topology.streams}
        allowed |= {subjects_of(fact) for fact in EVENTS if not fact.COMMAND}
    return sorted(allowed)


def backup_subjects(topology: Topology) -> list[str]:
    """Returns the subjects of the backup user: requests for a copy, and acknowledgements of its
    chunks.
    """
    return [
        subject
        for stream in topology.durable()
        for subject in (f"{API_PREFIX}.STREAM.SNAPSHOT.{stream}", f"$JS.SNAPSHOT.ACK.{stream}.>")
    ]


def restore_subjects(topology: Topology) -> list[str]:
    """Returns the subjects of the restore user: stream lookups, requests to create a missing
    stream, and its chunks.
    """
    return [
        subject
        for stream in topology.durable()
        for subject in (
            f"{API_PREFIX}.STREAM.INFO.{stream}",
            f"{API_PREFIX}.STREAM.RESTORE.{stream}",
            f"$JS.SNAPSHOT.RESTORE.{stream}.>",
        )
    ]


def _of_durable(stream: str, consumer: str) -> set[str]:
    api = f"{API_PREFIX}.CONSUMER"
    verbs = {f"{api}.{verb}.{stream}.{consumer}" for verb in ("DURABLE.CREATE", "MSG.NEXT", "INFO")}
    return verbs | {f"$JS.ACK.{stream}.{consumer}.>"}


def _of_reader(stream: str) -> set[str]:
    api = f"{API_PREFIX}.CONSUMER"
    return {f"{api}.CREATE.{stream}", f"{api}.MSG.NEXT.{stream}.*", f"{api}.DELETE.{stream}.*"}


def agent_imports(agent: PartSubjects, node: str) -> dict[str, str]:
    """Returns the imports of the agent of `node`, its whole view: subject in CONTROL → name in the
    agent's account.
    """
    imports = {subject: subject for event in agent.publishes for subject in agent_subjects(event_named(event), node)}
    for payload in _kept(agent.consumes):
        for suffix in _of_watch(payload.STREAM, agent_user(node), own_subjects(payload, node)):
            imports[f"{API_PREFIX}.{suffix}"] = f"{AGENT_API_PREFIX}.{suffix}"
    return imports


def agent_subscriptions(agent: PartSubjects, node: str) -> list[str]:
    """Returns the broadcast subjects of the partition of `node`: same name in its account as in
    CONTROL, subscribe-only.
    """
    return [own_subjects(payload, node) for payload in _broadcasts_in(agent.consumes)]


def _of_watch(stream: str, consumer: str, filter_subject: str) -> list[str]:
    return [
        f"CONSUMER.CREATE.{stream}.{consumer}.{filter_subject}",
        f"CONSUMER.MSG.NEXT.{stream}.{consumer}",
        f"CONSUMER.DELETE.{stream}.{consumer}",
    ]


def agent_exports(agent: PartSubjects) -> list[dict[str, str]]:
    """Returns the exports of CONTROL for agent accounts; each import names its node."""
    exports = [{"service": own_subjects(event_named(event), None)} for event in agent.publishes]
    for payload in _kept(agent.consumes):
        stream = payload.STREAM
        exports += [
            {"service": f"{API_PREFIX}.CONSUMER.CREATE.{stream}.*.>"},
            {"service": f"{API_PREFIX}.CONSUMER.MSG.NEXT.{stream}.*", "response_type": "stream"},
            {"service": f"{API_PREFIX}.CONSUMER.DELETE.{stream}.*"},
        ]
    return exports + [{"stream": own_subjects(payload, None)} for payload in _broadcasts_in(agent.consumes)]


def _named(event: str) -> type[Payload]:
    return next((payload for payload in BROADCASTS if event == payload.TYPE), None) or event_named(event)


def _kept(events: Iterable[str]) -> list[type[Payload]]:
    """Returns the payload classes of events kept by a stream and read through a consumer."""
    return [payload for payload in map(_named, events) if payload not in BROADCASTS]


def _broadcasts_in(events: Iterable[str]) -> list[type[BroadcastPayload]]:
    return [payload for payload in BROADCASTS if payload.TYPE in events]


def accounts_config(
    topology: Topology,
    services: Sequence[PartSubjects],
    agent: PartSubjects,
    nodes: Iterable[str],
    passwords: Mapping[str, str],
) -> str:
    """The `accounts` block of a nats-server configuration. `passwords` has one for every user."""
    lines = ["# Made by `slackwater nats-config` from the registry; do not edit, make it again.", "accounts {"]
    lines += [f"  {CONTROL} {{", "    jetstream: enabled", "    users: ["]
    may = {part.name: service_subjects(part, topology) for part in services}
    may |= {BACKUP: backup_subjects(topology), RESTORE: restore_subjects(topology)}
    hears = {part.name: [own_subjects(payload, None) for payload in _broadcasts_in(part.consumes)] for part in services}
    for user, subjects in may.items():
        lines.append("      " + _user(user, passwords, subjects, f"{inbox_of(user)}.>", *hears.get(user, ())))
    lines += ["    ]", "    exports: [", *(f"      {json.dumps(one)}" for one in agent_exports(agent)), "    ]", "  }"]
    for node in nodes:
        lines += _agent_account(agent, node, passwords)
    return "\n".join([*lines, "}", ""])


def _agent_account(agent: PartSubjects, node: str, passwords: Mapping[str, str]) -> list[str]:
    name, imports = agent_user(node), agent_imports(agent, node)
    lines = [f"  {json.dumps(name)} {{"]
    bounds = f"max_connections: {AGENT_CONNECTIONS}, max_subscriptions: {AGENT_SUBSCRIPTIONS}"
    lines.append(f"    limits {{ {bounds}, max_payload: {AGENT_MESSAGE_BYTES} }}")
    hears = agent_subscriptions(agent, node)
    lines.append(f"    users: [ {_user(name, passwords, sorted(imports.values()), f'{inbox_of(name)}.>', *hears)} ]")
    lines.append("    imports: [")
    for subject, local in imports.items():
        service = {"service": {"account": CONTROL, "subject": subject}}
        lines.append(f"      {json.dumps(service if local == subject else service | {'to': local})}")
    lines += [f"      {json.dumps({'stream': {'account': CONTROL, 'subject': subject}})}" for subject in hears]
    return [*lines, "    ]", "  }"]


def _user(name: str, passwords: Mapping[str, str], publishes: Sequence[str], *hears: str) -> str:
    permissions = {"publish": {"allow": list(publishes)}, "subscribe": {"allow": list(hears)}}
    return json.dumps({"user": name, "password": passwords[name], "permissions": permissions})


def users_of(services: Sequence[PartSubjects], nodes: Iterable[str]) -> list[str]:
    """Returns every user of the broker, in the order of the configuration."""
    return [*(part.name for part in services), BACKUP, RESTORE, *(agent_user(node) for node in nodes)]


def _dashed(event: str) -> str:
    return event.replace(".", "-").replace("_", "-")


__all__ = ["BACKUP", "RESTORE", "PartSubjects", "accounts_config", "agent_user", "service_subjects", "users_of"]
