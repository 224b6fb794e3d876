"""decision.recorded: a decision with everything that is needed to explain and replay it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from pydantic import Field, model_validator

from slackwater.decisions.packed import pack, unpack
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.model.bounds import DocumentText

_KEPT_PER_SUBJECT: Final = frozenset({DecisionKind.PREDICTION, DecisionKind.OFFER})


class DecisionRecorded(Payload):
    """A decision record, written to the outbox in the transaction of the decision. The console stores it.

    `packed` exists on the bus only: base64 of the zlib stream of a JSON object with the record's replay `arguments`,
    its `alternatives` and `inputs`, which are then empty in `record`. A decoded event has them in `record`.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "decision.recorded"
    STREAM: ClassVar[str] = "DECISIONS"
    FROM_AGENT: ClassVar[bool] = True
    ALSO_FROM: ClassVar[frozenset[str]] = frozenset({"prediction", "colocation", "ensurance"})

    record: DecisionRecord
    packed: DocumentText = Field(default="", exclude_if=operator.not_, json_schema_extra={"contentEncoding": "base64"})

    @model_validator(mode="before")
    @classmethod
    def _unpacked(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("packed"), str) or not values["packed"]:
            return values
        record = values.get("record")
        if not isinstance(record, dict) or not isinstance(record.get("replay"), dict):
            return values
        parts = unpack(values["packed"])
        replay = {**record["replay"], "arguments": parts["arguments"]}
        others = {name: parts[name] for name in ("alternatives", "inputs")}
        return {"record": {**record, **others, "replay": replay}}

    def body(self) -> str:
        record, packed = pack(self.record)
        return self.model_copy(update={"record": record, "packed": packed}).model_dump_json()

    def key(self) -> str:
        """Predictions and offers share a subject per node and resource, of which the stream keeps the newest."""
        own = self.record.subject if self.record.kind in _KEPT_PER_SUBJECT else self.record.id
        return f"{self.record.node}/{own}"

    def former_keys(self) -> Iterable[str]:
        """By node and id, as earlier versions published every record."""
        return (f"{self.record.node}/{self.record.id}",)

    def shard_key(self) -> str:
        return self.record.node


def decision_event(record: DecisionRecord, cause: Event[Any] | str | None, source: str) -> Event[DecisionRecorded]:
    """Returns the event of a decision, at the time of the decision."""
    return event_of(DecisionRecorded(record=record), source=source, time=record.decided_at, causedby=cause)
