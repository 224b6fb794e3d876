"""decision.recorded: a decision with everything that is needed to explain and replay it."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from pydantic import Field, model_validator

from slackwater.decisions.packed import pack, unpack
from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.model.bounds import DocumentText


class DecisionRecorded(Payload):
    """A decision record, written to the outbox in the transaction of the decision. The console stores it.

    `packed` exists on the bus only: base64 of the zlib stream of a JSON object with the record's replay `arguments`
    and its `alternatives`, which are then empty in `record`. A decoded event has them in `record`, in either form.
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
        return {"record": {**record, "replay": replay, "alternatives": parts["alternatives"]}}

    def body(self) -> str:
        record, packed = pack(self.record)
        return self.model_copy(update={"record": record, "packed": packed}).model_dump_json()

    def key(self) -> str:
        return f"{self.record.node}/{self.record.id}"

    def shard_key(self) -> str:
        return self.record.node


def decision_event(record: DecisionRecord, cause: Event[Any] | str | None, source: str) -> Event[DecisionRecorded]:
    """Returns the event of a decision, at the time of the decision."""
    return event_of(DecisionRecorded(record=record), source=source, time=record.decided_at, causedby=cause)
