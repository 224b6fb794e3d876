"""contracts/streams.yaml as typed, validated values: which stream keeps which event, and how each
is consumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slackwater.events.envelope import Payload, subjects_of
from slackwater.events.registry import EVENTS
from slackwater.model.errors import Misconfigured
from slackwater.model.identifiers import PARTITIONS

DLQ = "DLQ"
_CHECKOUT = Path(__file__).parents[4] / "contracts" / "streams.yaml"


class StreamSpec(BaseModel):
    """One JetStream stream. Ages in seconds, sizes in bytes, None = unlimited.

    `subjects`: those of the events that declare the stream, and what streams.yaml adds for messages
    that are not events.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    subjects: tuple[str, ...] = Field(min_length=1)
    storage: Literal["file", "memory"]
    discard: Literal["old", "new"]
    max_bytes: int = Field(gt=0)
    max_age_seconds: float | None = Field(default=None, gt=0)
    max_messages_per_subject: int | None = Field(default=None, gt=0)
    max_message_bytes: int | None = Field(default=None, gt=0)
    duplicate_window_seconds: float = Field(default=120, gt=0)
    compression: Literal["none", "s2"] = "none"
    """Of the file; `max_bytes` counts the published bytes."""


class ConsumerSpec(BaseModel):
    """A durable pull consumer with explicit acknowledgement.

    - `max_deliver`: deliveries to the handler before the message is dead-lettered. The bus counts,
      because the broker would drop the message silently.
    - `backoff_seconds`: pause before each redelivery; the last one applies to all further ones.
    - `deliver`: where a consumer that never ran starts: everything kept, new only, or the last of
      each subject.
    - `ack_wait_seconds`: redelivery time for messages in hand of a killed process. A slow handler
      is not affected, because settlement sends in-progress acknowledgements.
    - `latest_only`: of several messages of one subject in a batch only the newest is read, so that
      a lagging consumer catches up.
    - `partitioned`: one durable consumer per partition of shards, `NAME-p0` to `NAME-p7`, each read
      by the replica that owns the partition.
    - `gather_seconds`: pause after a batch that was not full, so that the next one is worth its
      transaction.
    - `fetch_ahead`: requests the next batch while a full one is handled, with twice as many
      messages in hand (a partitioned consumer always does).
    - `lanes`: batches of a partitioned consumer handled concurrently. A partition always takes the
      same lane, so order per key holds.
    - `jump_seconds`: a partitioned consumer further behind than this many seconds of its own work
      skips the backlog and continues with the newest message of each subject. The skipped messages
      show as gaps.
    - `removes_unread`: a message that cannot be decoded is removed from its stream, which keeps last
      values, once its dead letter is stored, so that no start reads it again.
    - `bulk`: read over a second connection, so that no other message queues behind its megabytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: str
    ack_wait_seconds: float = Field(default=5, gt=0)
    max_deliver: int = Field(default=5, ge=1)
    max_ack_pending: int = Field(default=1000, ge=1)
    backoff_seconds: tuple[float, ...] = Field(default=(0.5, 2, 10, 30), min_length=1)
    deliver: Literal["all", "new", "last_per_subject"] = "all"
    latest_only: bool = False
    partitioned: bool = False
    fetch_ahead: bool = False
    gather_seconds: float = Field(default=0, ge=0, le=1)
    jump_seconds: float | None = Field(default=None, gt=0)
    lanes: int = Field(default=1, ge=1, le=PARTITIONS)
    bulk: bool = False
    removes_unread: bool = False


class Topology(BaseModel):
    """All streams and consumers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    streams: Mapping[str, StreamSpec]
    consumers: Mapping[str, ConsumerSpec]
    listed_by: str = ""
    """The service that has a consumer for every event with LISTED, beside those that it declares."""

    def only(self, service: str) -> Topology:
        """Returns all streams, and only the consumers of one service: what it declares where each
        service has its own rights.
        """
        own = {name: spec for name, spec in self.consumers.items() if name.startswith(f"{service}-")}
        return self.model_copy(update={"consumers": own})

    def consumed(self, service: str, declared: Iterable[str]) -> tuple[str, ...]:
        """Returns the event types that a service consumes: those that it declares, and for the
        service that lists events, those that are listed.
        """
        listed = [payload.TYPE for payload in EVENTS if payload.LISTED] if service == self.listed_by else []
        return tuple(dict.fromkeys((*declared, *listed)))

    def durable(self) -> list[str]:
        """Returns the streams that survive a broker restart, which are those in a backup."""
        return [name for name, spec in self.streams.items() if spec.storage == "file"]

    def keeps_last(self, stream: str) -> bool:
        """Returns whether a stream keeps the last value of each subject without an age limit."""
        spec = self.streams[stream]
        return spec.max_messages_per_subject == 1 and spec.max_age_seconds is None

    def must_not_fill(self, stream: str) -> bool:
        """Returns whether a full stream refuses messages, or drops what no age limit would drop."""
        spec = self.streams[stream]
        return spec.discard == "new" or spec.max_age_seconds is None

    def stream_of(self, consumer: str) -> str:
        """Returns the stream that a consumer reads."""
        return event_named(self.consumers[consumer].event).STREAM


def durable_name(consumer: str, partition: int) -> str:
    """Returns the broker's name of one partition of a partitioned consumer."""
    return f"{consumer}-p{partition}"


def durable_names(consumer: str, spec: ConsumerSpec) -> list[str]:
    """Returns the broker's names of a consumer: its own, or one per partition."""
    return [durable_name(consumer, partition) for partition in range(PARTITIONS)] if spec.partitioned else [consumer]


def event_named(event: str) -> type[Payload]:
    """The payload class of an event type such as `usage.reported`. Raises Misconfigured for an unknown one."""
    for payload in EVENTS:
        if event == payload.TYPE:
            return payload
    known = ", ".join(payload.TYPE for payload in EVENTS)
    raise Misconfigured(f"event {event!r} is not in slackwater.events.registry; known: {known}")


def load(path: Path | None = None) -> Topology:
    """Returns a parsed topology: from `path`, or the installed one. Raises Misconfigured."""
    packaged = files("slackwater.bus").joinpath("streams.yaml")
    if path is None and packaged.is_file():
        return parse(packaged.read_text(), str(packaged))  # an installed wheel carries its own copy
    path = path or _CHECKOUT
    try:
        return parse(path.read_text(), str(path))
    except OSError as error:
        raise Misconfigured(f"streams cannot be read from {path}: {error.strerror}") from error


@cache
def parse(text: str, origin: str) -> Topology:
    """Returns the topology in the text of a streams.yaml, parsed once; errors name `origin`. Raises
    Misconfigured.
    """
    try:
        topology = Topology.model_validate(_with_consumers(_with_subjects(yaml.safe_load(text))))
    except (yaml.YAMLError, ValidationError) as error:
        raise Misconfigured(f"{origin}: {error}") from error
    _check(topology, origin)
    return topology


def _with_subjects(document: Any) -> Any:
    """Returns the document of a streams.yaml with the subjects of the events in their streams. Other
    mistakes of the document are left to its validation.
    """
    streams = document.get("streams") if isinstance(document, dict) else None
    if not isinstance(streams, dict):
        return document
    return {**document, "streams": {name: _with_event_subjects(name, spec) for name, spec in streams.items()}}


def _with_event_subjects(stream: str, spec: Any) -> Any:
    given = spec.get("subjects", []) if isinstance(spec, dict) else None
    return {**spec, "subjects": [*given, *event_subjects(stream)]} if isinstance(given, list) else spec


def _with_consumers(document: Any) -> Any:
    """Returns the document with a consumer of `listed_by` for every listed event that has none yet."""
    consumers = document.get("consumers") if isinstance(document, dict) else None
    if not isinstance(consumers, dict) or not (service := document.get("listed_by")):
        return document
    listed = {consumer_name(service, one): {"event": one.TYPE} for one in EVENTS if one.LISTED}
    return {**document, "consumers": {**listed, **consumers}}


def consumer_name(service: str, payload: type[Payload]) -> str:
    """Returns the name of a service's consumer of an event."""
    return f"{service}-" + payload.TYPE.replace(".", "-").replace("_", "-")


def event_subjects(stream: str) -> list[str]:
    """Returns the subjects of the events that declare this stream."""
    return [f"sw.v1.{payload.TYPE}.>" for payload in EVENTS if stream == payload.STREAM]


def _check(topology: Topology, origin: str) -> None:
    for payload in EVENTS:
        subject = subjects_of(payload)
        keepers = [name for name, spec in topology.streams.items() if any(_covers(s, subject) for s in spec.subjects)]
        if keepers != [payload.STREAM]:
            kept_by = ", ".join(keepers) or "none"
            raise Misconfigured(
                f"{origin}: {payload.TYPE} must be kept by stream {payload.STREAM} alone, found {kept_by}"
            )
    for name, consumer in topology.consumers.items():
        try:
            event_named(consumer.event)
        except Misconfigured as error:
            raise Misconfigured(f"{origin}: consumer {name}: {error.message}") from error
    if DLQ not in topology.streams:
        raise Misconfigured(f"{origin}: there must be a stream {DLQ} for dead letters")


def _covers(pattern: str, subject: str) -> bool:
    """Returns whether every subject matching `subject` (wildcards allowed) also matches
    `pattern`.
    """
    expected, tokens = pattern.split("."), subject.split(".")
    for position, part in enumerate(expected):
        if part == ">":
            return len(tokens) > position
        if position >= len(tokens) or part not in ("*", tokens[position]):
            return False
    return len(expected) == len(tokens)
