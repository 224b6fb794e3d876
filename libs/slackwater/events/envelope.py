"""The envelope: CloudEvents 1.0 attributes around one frozen payload.

On NATS it travels in binary mode: attributes as `ce-*` headers, the payload alone as JSON body
(see slackwater.bus.codec.cloudevents). `causedby` is an extension attribute with the id of the event that caused this
one; `slackwater why` follows it backwards and prints the chain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict

from slackwater.events.rosters import FindRoster
from slackwater.model.identifiers import PARTITIONS, new_id, partition_of, partition_of_shard, shard_of, shards_in


class Payload(BaseModel):
    """Base of every event body. Subclasses declare in class variables what the bus and the console derive the rest
    from: subjects of streams, permissions, schemas.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    TYPE: ClassVar[str]
    """Subject part and schema name, e.g. `usage.reported`."""
    VERSION: ClassVar[int] = 1
    STREAM: ClassVar[str]
    """The stream in contracts/streams.yaml that keeps this event. Its subjects follow from this."""
    KEY_PARTS: ClassVar[int] = 1
    """The number of parts of the key: `node` has one, `node/writer` two."""
    COMMAND: ClassVar[bool] = False
    """Whether the event commands a node. Only the declaring service may publish it and only agents act on it. Agents
    have no dead letters, so that it is never replayed from there."""
    FROM_AGENT: ClassVar[bool] = False
    """Whether agents publish the event about their own node, which the subject names. A block stops it."""
    ALSO_FROM: ClassVar[frozenset[str]] = frozenset()
    """The services that publish an event FROM_AGENT, too: under its subject with their name as one more part, which the
    broker lets no agent use. A block does not stop what a service publishes about the node."""
    AGENT_KEYS: ClassVar[tuple[str, ...]] = ()
    """The second parts of the key under which agents publish. They are few, so that what the stream keeps for each
    subject bounds what one agent fills."""
    LISTED: ClassVar[bool] = False
    """Whether the console stores and lists the event: `GET /v1/events`, `slackwater get events`, the page of events.
    Its consumer follows from this. For rare, small events: each is a row until its retention ends."""

    WIRE: ClassVar[type[BaseModel] | None] = None
    """The form in which the event travels, where it is another: columns of its pods."""

    def key(self) -> str:
        """The key that determines order and ownership: a node, quota root or workload. May contain dots."""
        raise NotImplementedError

    def body(self) -> str:
        """The JSON that travels on the bus."""
        return self.model_dump_json()

    def shown(self) -> Self:
        """The event as it is shown: with the pods that are read when they are needed."""
        return self

    @classmethod
    def wire(cls) -> type[BaseModel]:
        """The form in which the event travels."""
        return cls.WIRE or cls

    @classmethod
    def joined(cls, columns: Mapping[str, Any], find: FindRoster) -> Self:
        """The event of the fields of its WIRE. Raises RosterMissing, InvalidColumns."""
        raise NotImplementedError

    @classmethod
    def from_document(cls, document: Any, find: FindRoster) -> Self:
        """The event of a JSON document; `find` has the rosters of nodes. Raises ValidationError, InvalidColumns,
        RosterMissing."""
        if cls.WIRE is not None:
            return cls.joined(dict(cls.WIRE.model_validate(document)), find)
        return cls.model_validate(document)

    def shard_key(self) -> str:
        """The key that determines the shard; differs from `key` only where that has several parts."""
        return self.key()


class BroadcastPayload(Payload):
    """Base of messages about a whole partition that are published without a stream.

    They are neither stored nor acknowledged. They are repeated, so that a subscriber that misses one gets the next.
    """

    STREAM: ClassVar[str] = ""

    partition: Annotated[int, Interval(ge=0, le=PARTITIONS - 1)]


P = TypeVar("P", bound=Payload)
M = TypeVar("M", bound=BaseModel)

KEY_POSITION = 5  # sw . v1 . usage . reported . 17 . key…
_NO_TOKEN = re.compile(r"[^A-Za-z0-9_-]+")


class Event(BaseModel, Generic[P]):
    """One event with its attributes. `id` is never reused and is also the JetStream message id."""

    model_config = ConfigDict(frozen=True)

    id: str
    source: str
    time: datetime
    causedby: str | None = None
    traceparent: str | None = None
    data: P

    @property
    def type(self) -> str:
        return f"io.slackwater.{self.data.TYPE}.v{self.data.VERSION}"

    @property
    def subject(self) -> str:
        return published_subject(self.data, self.source)


def built(shape: type[M], values: dict[str, Any]) -> M:
    """A model made without validation, as by `shape.model_construct(**values)`. `values` must contain exactly the
    fields.

    Takes 4 us for the 15 fields of a report instead of 15 us, because no defaults are looked up.
    """
    made = shape.__new__(shape)
    object.__setattr__(made, "__dict__", values)  # the model is frozen
    object.__setattr__(made, "__pydantic_fields_set__", set(values))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def subject_token(text: str) -> str:
    """A name as one NATS subject token: ASCII letters, digits, `-` and `_` stay, other bytes (UTF-8) become `=XX`."""
    return _NO_TOKEN.sub(_as_bytes, text)


def _as_bytes(match: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in match[0].encode())


def agent_source(node: str) -> str:
    """The `source` of what the agent of a node publishes."""
    return f"agent/{node}"


def published_subject(data: Payload, source: str) -> str:
    """The subject on which `source` publishes the event."""
    subject = subject_of(data)
    return f"{subject}.{source}" if source in data.ALSO_FROM else subject


def is_of_agent(payload: type[Payload], subject: str) -> bool:
    """Whether an agent published what has this subject: whatever its headers say, the broker lets an agent use no other
    subjects, and services add their name to them.
    """
    return payload.FROM_AGENT and subject.count(".") == KEY_POSITION + payload.KEY_PARTS - 1


def subject_of(data: Payload) -> str:
    """The subject `sw.v1.<event>.<shard>.<key>`; a `/` in the key separates tokens (`node/writer`).

    Messages without a stream have the partition in place of the shard.
    """
    tokens = ".".join(subject_token(part) for part in data.key().split("/"))
    place = data.partition if isinstance(data, BroadcastPayload) else shard_of(data.shard_key())
    return f"sw.v1.{data.TYPE}.{place}.{tokens}"


def subjects_of(payload: type[Payload], key: str | None = None) -> str:
    """The subject filter for all events of a type, or for those whose key starts with `key`."""
    if key is None:
        return f"sw.v1.{payload.TYPE}.*.>"
    tokens = ".".join(subject_token(part) for part in key.split("/"))
    return f"sw.v1.{payload.TYPE}.{shard_of(key.split('/')[0])}.{tokens}.>"


def partition_subjects(payload: type[Payload], partition: int) -> list[str]:
    """The subject filters for the events of a type in one partition, one per shard."""
    return [f"sw.v1.{payload.TYPE}.{shard}.>" for shard in shards_in(partition)]


def partition_in(subject: str) -> int:
    """The partition of the shard in a subject. Raises ValueError if the subject names no shard."""
    return partition_of_shard(int(subject.split(".", 5)[4]))


def is_in_its_shard(subject: str, key: str) -> bool:
    """Whether the subject names the shard of `key`. Otherwise two replicas would process the same node."""
    return subject.split(".", 5)[4] == str(shard_of(key.split("/")[0]))


def broadcast_subjects(payload: type[BroadcastPayload], partition: int) -> str:
    """The subject filter for messages without a stream about one partition."""
    return f"sw.v1.{payload.TYPE}.{partition}.*"


def own_subjects(payload: type[Payload], node: str | None) -> str:
    """The subject filter for exactly the events of a type about `node`; with None, about any single node.

    For messages without a stream: those about the partition of the node.
    """
    if issubclass(payload, BroadcastPayload):
        return f"sw.v1.{payload.TYPE}.*.*" if node is None else broadcast_subjects(payload, partition_of(node))
    shard, name = ("*", "*") if node is None else (str(shard_of(node)), subject_token(node))
    return ".".join([f"sw.v1.{payload.TYPE}", shard, name, *["*"] * (payload.KEY_PARTS - 1)])


def agent_subjects(payload: type[Payload], node: str) -> list[str]:
    """The subjects on which the agent of `node` publishes events of a type."""
    pattern = own_subjects(payload, node)
    return [pattern.replace("*", subject_token(key)) for key in payload.AGENT_KEYS] if payload.AGENT_KEYS else [pattern]


def subjects_by_service(payload: type[Payload], service: str) -> str:
    """The subject filter for what a service publishes of a type."""
    if not payload.FROM_AGENT:
        return subjects_of(payload)
    own = own_subjects(payload, None)
    return f"{own}.{service}" if service in payload.ALSO_FROM else own


def subjects_about(payload: type[Payload], node: str) -> list[str]:
    """The subject filters for the events of a type about `node`, of its agent and of services."""
    own = own_subjects(payload, node)
    return [own, *(f"{own}.{service}" for service in sorted(payload.ALSO_FROM))]


def event_of(
    data: P,
    *,
    source: str,
    time: datetime,
    causedby: Event[Any] | str | None = None,
    traceparent: str | None = None,
    id: str | None = None,  # noqa: A002 - the CloudEvents attribute has this name
) -> Event[P]:
    """An event around a payload. If `causedby` is an event, its id becomes the cause and its trace is inherited."""
    cause = causedby.id if isinstance(causedby, Event) else causedby
    if traceparent is None and isinstance(causedby, Event):
        traceparent = causedby.traceparent
    values = {"id": id or new_id(), "source": source, "time": time, "causedby": cause, "traceparent": traceparent}
    return built(Event, values | {"data": data})
