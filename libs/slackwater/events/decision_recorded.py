"""decision.recorded: a decision with everything that is needed to explain and replay it.

On the bus the largest parts of a record (replay arguments, alternatives, inputs) travel packed, because the stream
keeps 30 days (decision 0083). Readers of this class see the record whole, whichever form it came in.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Final

import msgspec
from pydantic import Field, model_validator

from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.events.codec.packed import pack, unpack
from slackwater.events.envelope import Event, Payload, built, event_of
from slackwater.model.bounds import MOST_TEXT, Text

PACKED_FROM_BYTES: Final = 2048
"""Smaller parts stay readable."""
ENVELOPE_BYTES: Final = 600
"""Subject and headers of a message."""
_PARTS: Final = frozenset({"alternatives", "inputs", "arguments"})
KEPT_PER_SUBJECT: Final = frozenset({DecisionKind.PREDICTION, DecisionKind.OFFER, DecisionKind.STATUS})
"""Kinds of which the stream keeps the newest per node and subject."""


class DecisionRecorded(Payload):
    """A decision record, written to the outbox in the transaction of the decision. The console stores it.

    `packed` holds the record's `alternatives`, `inputs` and `replay.arguments`, which are empty then: base64 of zlib of
    `{"alternatives": […], "inputs": […], "arguments": {…}}`. It is absent where these parts are small.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "decision.recorded"
    STREAM: ClassVar[str] = "DECISIONS"

    record: DecisionRecord
    packed: Text = Field("", exclude_if=operator.not_, examples=[pack(b'{"alternatives":[],"arguments":{}}')])

    def key(self) -> str:
        """Predictions, offers and statuses share a subject per node and resource; the stream keeps the newest."""
        own = self.record.subject if self.record.kind in KEPT_PER_SUBJECT else self.record.id
        return f"{self.record.node}/{own}"

    def shard_key(self) -> str:
        return self.record.node

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, document: Any) -> Any:
        if not isinstance(document, dict) or not document.get("packed"):
            return document
        record, parts = document.get("record"), unpack(_text(document["packed"]))
        if not isinstance(record, dict) or not isinstance(record.get("replay"), dict) or not isinstance(parts, dict):
            raise ValueError("packed: needs a record with a replay, and an object with its parts")
        if parts.keys() - _PARTS:
            raise ValueError(f"packed: unknown parts {', '.join(sorted(parts))[:200]}")
        replay = {**record["replay"], "arguments": parts.get("arguments", {})}
        others = {name: parts.get(name, record.get(name, [])) for name in ("alternatives", "inputs")}
        return {"record": {**record, **others, "replay": replay}}

    def body(self) -> str:
        """As Payload.body, with the large parts of the record packed, if that is smaller."""
        plain = super().body()
        if len(plain) < PACKED_FROM_BYTES:
            return plain
        record = self.record.model_dump(mode="json")
        parts = {"alternatives": record["alternatives"], "inputs": record["inputs"]}
        parts["arguments"] = record["replay"]["arguments"]
        read = msgspec.json.encode(parts)
        if len(read) < PACKED_FROM_BYTES or len(text := pack(read)) >= min(len(read), MOST_TEXT):
            return plain
        rest = {**record, "alternatives": [], "inputs": [], "replay": {**record["replay"], "arguments": {}}}
        return msgspec.json.encode({"record": rest, "packed": text}).decode()


def decision_event(record: DecisionRecord, cause: Event[Any] | str | None, source: str) -> Event[DecisionRecorded]:
    """Returns the event of a decision, at the time of the decision."""
    recorded = built(DecisionRecorded, {"record": record, "packed": ""})  # the record is valid
    return event_of(recorded, source=source, time=record.decided_at, causedby=cause)


def stream_bytes(record: DecisionRecord) -> int:
    """Returns the bytes that a record takes in the stream, about."""
    return len(DecisionRecorded(record=record).body()) + ENVELOPE_BYTES


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("packed: text is needed")
    return value
