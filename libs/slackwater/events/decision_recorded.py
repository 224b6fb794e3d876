"""decision.recorded: a decision with everything that is needed to explain and replay it.

On the bus the largest parts of a record (replay arguments, alternatives, inputs) travel packed, because the stream
keeps 30 days (decision 0004). Readers of this class see the record whole, whichever form it came in.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec
from pydantic import Field, model_validator

from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.events.codec.packed import pack, packed_if_smaller, unpack
from slackwater.events.envelope import Event, Payload, built, event_of
from slackwater.model.bounds import Text
from slackwater.model.memo import OnceByIdentity

PACKED_FROM_BYTES: Final = 2048
"""Smaller parts stay readable."""
ENVELOPE_BYTES: Final = 600
"""Subject and headers of a message."""
POLICIES: Final = "policies"
_PARTS: Final = frozenset({"alternatives", "inputs", "arguments"})
KEPT_PER_SUBJECT: Final = frozenset({DecisionKind.PREDICTION, DecisionKind.OFFER, DecisionKind.STATUS})
"""Kinds of which the stream keeps the newest per node and subject."""


class DecisionRecorded(Payload):
    """A decision record, written to the outbox in the transaction of the decision. The console stores it.

    `packed` holds the record's `alternatives`, `inputs` and `replay.arguments`, which are empty then: base64 of zlib of
    `{"alternatives": […], "inputs": […], "arguments": {…}}`. It is absent where these parts are small.
    `packed_policies` holds the argument `policies` alone, where that is large: the same text in all records under the
    same documents, so that it is made once.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "decision.recorded"
    STREAM: ClassVar[str] = "DECISIONS"

    record: DecisionRecord
    packed: Text = Field("", exclude_if=operator.not_, examples=[pack(b'{"alternatives":[],"arguments":{}}')])
    packed_policies: Text = Field("", exclude_if=operator.not_, examples=[pack(b'{"nodes":[]}')])

    def key(self) -> str:
        """Predictions, offers and statuses share a subject per node and resource; the stream keeps the newest."""
        own = self.record.subject if self.record.kind in KEPT_PER_SUBJECT else self.record.id
        return f"{self.record.node}/{own}"

    def shard_key(self) -> str:
        return self.record.node

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, document: Any) -> Any:
        if not isinstance(document, dict) or not (document.get("packed") or document.get("packed_policies")):
            return document
        record, parts = document.get("record"), _unpacked(document, "packed")
        if not isinstance(record, dict) or not isinstance(record.get("replay"), dict):
            raise ValueError("packed: needs a record with a replay")
        if parts.keys() - _PARTS:
            raise ValueError(f"packed: unknown parts {', '.join(sorted(parts))[:200]}")
        arguments = parts.get("arguments", record["replay"].get("arguments", {}))
        if document.get("packed_policies"):
            if not isinstance(arguments, dict):
                raise ValueError("packed_policies: the arguments are not an object")
            arguments = {**arguments, POLICIES: _unpacked(document, "packed_policies")}
        replay = {**record["replay"], "arguments": arguments}
        others = {name: parts.get(name, record.get(name, [])) for name in ("alternatives", "inputs")}
        return {"record": {**record, **others, "replay": replay}}

    def body(self) -> str:
        """As Payload.body, with the large parts of the record packed, if that is smaller."""
        arguments = self.record.replay.arguments
        shared = _shared(arguments[POLICIES]) if POLICIES in arguments else None
        if shared is not None and shared.is_large:
            return self._sharing(shared)
        plain = super().body()
        if len(plain) < PACKED_FROM_BYTES:
            return plain
        record = self.record.model_dump(mode="json")
        text = _packed_parts(record)
        return msgspec.json.encode({"record": _without_parts(record), "packed": text}).decode() if text else plain

    def _sharing(self, shared: _Shared) -> str:
        """The body with policies that are encoded already."""
        replay = self.record.replay
        own = {name: value for name, value in replay.arguments.items() if name != POLICIES}
        lean = self.record.model_copy(update={"replay": replay.model_copy(update={"arguments": own})})
        record = lean.model_dump(mode="json")
        if not shared.text:
            record["replay"]["arguments"][POLICIES] = msgspec.Raw(shared.encoded)
            return msgspec.json.encode({"record": record}).decode()
        text = _packed_parts(record)
        packed = {"record": _without_parts(record), "packed": text} if text else {"record": record}
        return msgspec.json.encode({**packed, "packed_policies": shared.text}).decode()


@dataclass(frozen=True, slots=True)
class _Shared:
    """The argument `policies` as JSON, and packed if a reader can unpack it; else `text` is empty."""

    encoded: bytes
    text: str

    @property
    def is_large(self) -> bool:
        return len(self.encoded) >= PACKED_FROM_BYTES


def _encoded(policies: Any) -> _Shared:
    encoded = msgspec.json.encode(policies)
    return _Shared(encoded, packed_if_smaller(encoded) if len(encoded) >= PACKED_FROM_BYTES else "")


_shared: Final = OnceByIdentity(_encoded)


def _packed_parts(record: dict[str, Any]) -> str:
    """The large parts of a record, packed; empty if they are small, or not smaller then."""
    parts = {"alternatives": record["alternatives"], "inputs": record["inputs"]}
    parts["arguments"] = record["replay"]["arguments"]
    encoded = msgspec.json.encode(parts)
    return packed_if_smaller(encoded) if len(encoded) >= PACKED_FROM_BYTES else ""


def _without_parts(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "alternatives": [], "inputs": [], "replay": {**record["replay"], "arguments": {}}}


def _unpacked(document: dict[str, Any], field: str) -> dict[str, Any]:
    """The object that is packed in a field; an empty one without it. Raises ValueError."""
    text = document.get(field) or pack(b"{}")
    if not isinstance(text, str):
        raise ValueError(f"{field}: text is needed")
    parts = unpack(text)
    if not isinstance(parts, dict):
        raise ValueError(f"{field}: an object is needed")
    return parts


def decision_event(record: DecisionRecord, cause: Event[Any] | str | None, source: str) -> Event[DecisionRecorded]:
    """Returns the event of a decision, at the time of the decision."""
    recorded = built(DecisionRecorded, {"record": record, "packed": ""})  # the record is valid
    return event_of(recorded, source=source, time=record.decided_at, causedby=cause)


def stream_bytes(record: DecisionRecord) -> int:
    """Returns the bytes that a record takes in the stream, about."""
    return len(DecisionRecorded(record=record).body()) + ENVELOPE_BYTES
