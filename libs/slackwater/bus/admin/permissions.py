"""Publish and subscribe permissions on the broker, derived from the registry so that they cannot
drift from it.

Services share the account CONTROL, which holds the streams; each is one user with the subjects of
its CONSUMES and PUBLISHES. Every agent has its own account, which imports only its node's subjects
and, subscribe-only, the broadcasts of its node's partition. bus.access makes signed tokens of them.

Permissions inside one account would not suffice: the answer to a publish goes to the reply subject
that the sender names, and the broker does not check it. An agent could make the broker overwrite
another node's intents, or renew its lease. In its own account these subjects do not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from slackwater.bus.admin.streams import Topology, durable_names, event_named
from slackwater.bus.connect.access import AGENT_API_PREFIX, API_PREFIX, agent_user
from slackwater.events import envelope
from slackwater.events.envelope import (
    BroadcastPayload,
    Payload,
    agent_subjects,
    own_subjects,
    subject_token,
    subjects_of,
)
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.registry import BROADCASTS, EVENTS

CONTROL = "CONTROL"
ENROL, REVIEW = "sw.access.enrol", "sw.access.review"
"""Requests for an agent's credentials. The first has the node as its last token: only the account of its agent and the
user of its enrolment may publish it. The second proves its node by a token of the cluster.
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
    `issues_access`, `reviews_access`: answers agents that ask for credentials, with them or by the
    token of a cluster.
    """

    name: str
    consumes: tuple[str, ...]
    publishes: tuple[str, ...]
    reads_streams: bool = False
    operates: bool = False
    issues_access: bool = False
    reviews_access: bool = False


def service_subjects(part: PartSubjects, topology: Topology) -> list[str]:
    """Returns the subjects on which a service may publish or broadcast. It subscribes to its own
    inbox, where JetStream delivers requested messages, and to `service_subscriptions`.
    """
    allowed = {envelope.subjects_by_service(_named(event), part.name) for event in part.publishes}
    allowed.add(f"{API_PREFIX}.INFO")
    for stream in topology.streams:
        allowed |= {f"{API_PREFIX}.STREAM.{verb}.{stream}" for verb in ("CREATE", "UPDATE", "INFO")}
    allowed |= _of_rosters(part.consumes)
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
                if (
                    spec.jump_seconds is not None or topology.streams[stream].storage == "memory"
                ):  # it may lose its leader
                    allowed.add(f"{API_PREFIX}.CONSUMER.DELETE.{stream}.{durable}")
        else:
            allowed |= _of_reader(stream) | {f"sw.v1.dlq.{part.name}-replay-{_dashed(event)}"}
    if part.reads_streams:
        allowed |= {subject for stream in topology.streams for subject in _of_reader(stream)}
        allowed |= {f"{API_PREFIX}.STREAM.MSG.GET.{stream}" for stream in topology.streams}  # where each type ends
    if part.operates:
        allowed |= {f"{API_PREFIX}.CONSUMER.LIST.{stream}" for stream in topology.streams}
        allowed |= {subjects_of(fact) for fact in EVENTS if not fact.COMMAND}
    return sorted(allowed | ({f"{ENROL}.*"} if part.reviews_access else set()))


def service_subscriptions(part: PartSubjects) -> list[str]:
    """Returns the subjects that a service receives beside its inbox. The broker lets it answer each request once."""
    requests = [f"{ENROL}.*"] * part.issues_access + [REVIEW] * part.reviews_access
    return [*(own_subjects(payload, None) for payload in _broadcasts_in(part.consumes)), *requests]


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


def _of_rosters(consumes: Collection[str]) -> set[str]:
    """Returns the subject of a last value: the bus reads the roster of a node when a report counts by it."""
    return {f"{API_PREFIX}.STREAM.MSG.GET.{PodsRostered.STREAM}"} if PodsRostered.TYPE in consumes else set()


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
    enrol = f"{ENROL}.{subject_token(node)}"
    return imports | {enrol: enrol}


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
    exports += [{"service": f"{ENROL}.*"}, {"service": REVIEW}]
    return exports + [{"stream": own_subjects(payload, None)} for payload in _broadcasts_in(agent.consumes)]


def _named(event: str) -> type[Payload]:
    return next((payload for payload in BROADCASTS if event == payload.TYPE), None) or event_named(event)


def _kept(events: Iterable[str]) -> list[type[Payload]]:
    """Returns the payload classes of events kept by a stream and read through a consumer."""
    return [payload for payload in map(_named, events) if payload not in BROADCASTS]


def _broadcasts_in(events: Iterable[str]) -> list[type[BroadcastPayload]]:
    return [payload for payload in BROADCASTS if payload.TYPE in events]


def users_of(services: Sequence[PartSubjects]) -> list[str]:
    """Returns the users of the account CONTROL, in the order of the configuration."""
    return [*(part.name for part in services), BACKUP, RESTORE]


def _dashed(event: str) -> str:
    return event.replace(".", "-").replace("_", "-")


__all__ = ["BACKUP", "RESTORE", "PartSubjects", "agent_user", "service_subjects", "users_of"]
