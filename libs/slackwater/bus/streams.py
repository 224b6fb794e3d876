"""contracts/streams.yaml as typed, validated values: which stream keeps which event, and who consumes what, how."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slackwater.events.envelope import Payload, subjects_of
from slackwater.events.registry import EVENTS
from slackwater.model.errors import Misconfigured
from slackwater.model.identifiers import PARTITIONS

DLQ = "DLQ"
_CHECKOUT = Path(__file__).parents[3] / "contracts" / "streams.yaml"


class StreamSpec(BaseModel):
    """One JetStream stream. Ages in seconds, sizes in bytes, None = unlimited."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subjects: tuple[str, ...] = Field(min_length=1)
    storage: Literal["file", "memory"]
    discard: Literal["old", "new"]
    max_bytes: int = Field(gt=0)
    max_age_seconds: float | None = Field(default=None, gt=0)
    max_messages_per_subject: int | None = Field(default=None, gt=0)
    duplicate_window_seconds: float = Field(default=120, gt=0)


class ConsumerSpec(BaseModel):
    """One durable pull consumer with explicit acknowledgement.

    `max_deliver` is how often the handler may see a message before it goes to the dead letters; the bus counts, not
    the broker, which would drop it without a word. `backoff_seconds` is the pause before each redelivery, the last
    one for all further. `deliver` is where a consumer that never ran starts: everything kept, new only, or the last
    of each subject. `ack_wait_seconds` is how long what a killed process had in hand waits for another; a slow
    handler is not overtaken by it (settling tells the broker that work goes on). With `latest_only`, of several
    messages of one subject that wait in one batch only the newest is read: who lags, catches up. `partitioned`
    makes it one durable consumer per partition of shards, `NAME-p0` to `NAME-p7`, each read by the replica that owns
    the partition. For what comes without end: `gather_seconds` is the pause after a batch that was not full, so that
    the next one is worth its transaction; `fetch_ahead` has the next batch on its way while a full one is handled, at
    the price of twice as many messages in hand (a partitioned one always does). `lanes` is how many batches of a
    partitioned one are handled beside each other: while one waits for its transaction another is read. A partition
    always takes the same lane, so what is of one key stays in order. With `jump_seconds`, a partitioned one that is
    further behind than so many seconds of its own work lets go of what waits and goes on with the newest message of
    each subject: under overload old news is not worth the work. What was let go shows as gaps. `bulk` is
    read over a second connection: nothing else shall stand behind its megabytes.
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


class Topology(BaseModel):
    """Every stream and every consumer there is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    streams: Mapping[str, StreamSpec]
    consumers: Mapping[str, ConsumerSpec]

    def only(self, service: str) -> Topology:
        """All streams, and of the consumers those of one service: what it declares where each has its own rights."""
        own = {name: spec for name, spec in self.consumers.items() if name.startswith(f"{service}-")}
        return self.model_copy(update={"consumers": own})

    def durable(self) -> list[str]:
        """The streams that outlive the broker, which are those that a backup holds."""
        return [name for name, spec in self.streams.items() if spec.storage == "file"]

    def keeps_last(self, stream: str) -> bool:
        """Whether a stream holds the last value of each subject for as long as it lives."""
        spec = self.streams[stream]
        return spec.max_messages_per_subject == 1 and spec.max_age_seconds is None

    def stream_of(self, consumer: str) -> str:
        """The stream that a consumer reads."""
        return event_named(self.consumers[consumer].event).STREAM


def durable_name(consumer: str, partition: int) -> str:
    """The name in the broker of one partition of a partitioned consumer."""
    return f"{consumer}-p{partition}"


def durable_names(consumer: str, spec: ConsumerSpec) -> list[str]:
    """The names in the broker of a consumer: its own, or one per partition."""
    return [durable_name(consumer, partition) for partition in range(PARTITIONS)] if spec.partitioned else [consumer]


def event_named(event: str) -> type[Payload]:
    """The payload class of an event type such as `usage.reported`. Raises Misconfigured for an unknown one."""
    for payload in EVENTS:
        if event == payload.TYPE:
            return payload
    known = ", ".join(payload.TYPE for payload in EVENTS)
    raise Misconfigured(f"event {event!r} is not in slackwater.events.registry; known: {known}")


def load(path: Path | None = None) -> Topology:
    """Read and check a topology: `path`, or the one that came with this installation. Raises Misconfigured."""
    packaged = files("slackwater.bus").joinpath("streams.yaml")
    if path is None and packaged.is_file():
        return parse(packaged.read_text(), str(packaged))  # an installed wheel carries its own copy
    path = path or _CHECKOUT
    try:
        return parse(path.read_text(), str(path))
    except OSError as error:
        raise Misconfigured(f"streams cannot be read from {path}: {error.strerror}") from error


def parse(text: str, origin: str) -> Topology:
    """Validate the text of a streams.yaml; `origin` is named in errors. Raises Misconfigured."""
    try:
        topology = Topology.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError) as error:
        raise Misconfigured(f"{origin}: {error}") from error
    _check(topology, origin)
    return topology


def _check(topology: Topology, origin: str) -> None:
    for payload in EVENTS:
        subject = subjects_of(payload)
        keepers = [name for name, spec in topology.streams.items() if any(_covers(s, subject) for s in spec.subjects)]
        if keepers != [payload.STREAM]:
            found = ", ".join(keepers) or "none"
            raise Misconfigured(
                f"{origin}: {payload.TYPE} must be kept by stream {payload.STREAM} alone, found {found}"
            )
    for name, consumer in topology.consumers.items():
        try:
            event_named(consumer.event)
        except Misconfigured as error:
            raise Misconfigured(f"{origin}: consumer {name}: {error.message}") from error
    if DLQ not in topology.streams:
        raise Misconfigured(f"{origin}: there must be a stream {DLQ} for dead letters")


def _covers(pattern: str, subject: str) -> bool:
    """Whether every subject that matches `subject` (which may hold wildcards) also matches `pattern`."""
    wanted, found = pattern.split("."), subject.split(".")
    for position, part in enumerate(wanted):
        if part == ">":
            return len(found) > position
        if position >= len(found) or part not in ("*", found[position]):
            return False
    return len(wanted) == len(found)
