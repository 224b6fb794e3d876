"""The envelope: CloudEvents 1.0 attributes around one frozen payload.

On NATS it travels in binary mode: attributes as `ce-*` headers, the payload alone as JSON body
(see slackwater.bus.encoding). `causedby` is an extension attribute with the id of the event that led to this
one: following it backwards gives the chain that `slackwater why` prints.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict

from slackwater.model.identifiers import PARTITIONS, new_id, partition_of, partition_of_shard, shard_of, shards_in


class Payload(BaseModel):
    """Base of every event body. Subclasses declare what the bus must know about them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    TYPE: ClassVar[str]
    """Subject part and schema name, e.g. `usage.reported`."""
    VERSION: ClassVar[int] = 1
    STREAM: ClassVar[str]
    """The stream in contracts/streams.yaml that keeps this event."""
    KEY_PARTS: ClassVar[int] = 1
    """How many parts its key has: `node` is one, `node/writer` two."""

    def key(self) -> str:
        """What order and ownership follow: the node, quota root or workload. Dots are allowed."""
        raise NotImplementedError

    def shard_key(self) -> str:
        """What the shard is computed from; the key itself unless the key is a compound."""
        return self.key()


class Told(Payload):
    """Base of what is told to whoever listens at that moment, about a partition as a whole. No stream keeps it and
    nobody confirms it: it is told again and again, so who misses one hears the next."""

    STREAM: ClassVar[str] = ""

    partition: Annotated[int, Interval(ge=0, le=PARTITIONS - 1)]


P = TypeVar("P", bound=Payload)
M = TypeVar("M", bound=BaseModel)

_NO_TOKEN = re.compile(r"[^A-Za-z0-9_-]+")


class Event(BaseModel, Generic[P]):
    """One fact with its attributes. `id` is unique for ever and is also the JetStream message id."""

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
        return subject_of(self.data)


def built(shape: type[M], values: dict[str, Any]) -> M:
    """What `shape.model_construct(**values)` gives where `values` has each field by its name, and nothing else: neither
    looks at what it is given. 4 us for the 15 fields of a report in place of 15: no default has to be looked for."""
    made = shape.__new__(shape)
    object.__setattr__(made, "__dict__", values)  # the model is frozen
    object.__setattr__(made, "__pydantic_fields_set__", set(values))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def subject_token(text: str) -> str:
    """A name as one NATS subject token: all but ASCII letters, digits, `-`, `_` becomes `=XX` per UTF-8 byte."""
    return _NO_TOKEN.sub(_as_bytes, text)


def _as_bytes(match: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in match[0].encode())


def subject_of(data: Payload) -> str:
    """`sw.v1.<event>.<shard>.<key>`; a `/` in the key separates tokens (`node/writer`). What is told has its partition
    where others have their shard."""
    tokens = ".".join(subject_token(part) for part in data.key().split("/"))
    place = data.partition if isinstance(data, Told) else shard_of(data.shard_key())
    return f"sw.v1.{data.TYPE}.{place}.{tokens}"


def subjects_of(payload: type[Payload], key: str | None = None) -> str:
    """The filter for all events of a type, or only for those whose key starts with `key`."""
    if key is None:
        return f"sw.v1.{payload.TYPE}.*.>"
    tokens = ".".join(subject_token(part) for part in key.split("/"))
    return f"sw.v1.{payload.TYPE}.{shard_of(key.split('/')[0])}.{tokens}.>"


def partition_subjects(payload: type[Payload], partition: int) -> list[str]:
    """The filters for the events of a type in one partition: one for each of its shards."""
    return [f"sw.v1.{payload.TYPE}.{shard}.>" for shard in shards_in(partition)]


def partition_in(subject: str) -> int:
    """The partition of the shard in a subject. Raises ValueError for one that is not ours."""
    return partition_of_shard(int(subject.split(".", 5)[4]))


def is_in_its_shard(subject: str, key: str) -> bool:
    """Whether a subject that carries `key` names the shard of it; else two replicas would work on the same node."""
    return subject.split(".", 5)[4] == str(shard_of(key.split("/")[0]))


def told_subjects(payload: type[Told], partition: int) -> str:
    """The filter for all that is told of one partition."""
    return f"sw.v1.{payload.TYPE}.{partition}.*"


def own_subjects(payload: type[Payload], node: str | None) -> str:
    """One filter for all events of a type that are about `node` (or, if None, about one node each), and no others; of
    what is told, that about its partition."""
    if issubclass(payload, Told):
        return f"sw.v1.{payload.TYPE}.*.*" if node is None else told_subjects(payload, partition_of(node))
    shard, name = ("*", "*") if node is None else (str(shard_of(node)), subject_token(node))
    return ".".join([f"sw.v1.{payload.TYPE}", shard, name, *["*"] * (payload.KEY_PARTS - 1)])


def event_of(
    data: P,
    *,
    source: str,
    time: datetime,
    causedby: Event[Any] | str | None = None,
    traceparent: str | None = None,
    id: str | None = None,  # noqa: A002 - the CloudEvents attribute has this name
) -> Event[P]:
    """Wrap a payload; cause and trace are inherited from the causing event when one is given."""
    cause = causedby.id if isinstance(causedby, Event) else causedby
    if traceparent is None and isinstance(causedby, Event):
        traceparent = causedby.traceparent
    return Event[P].model_construct(
        id=id or new_id(), source=source, time=time, causedby=cause, traceparent=traceparent, data=data
    )
