"""The starts that this node has decided, on disk."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from slackwater.agent.adapters.records_file import JsonRecords, known_fields
from slackwater.agent.domain.starts import StartRecord
from slackwater.model.start_states import StartState

_TIMES = ("deadline", "started_at", "ready_at")
_KNOWN = tuple(field.name for field in fields(StartRecord))


@dataclass(frozen=True, slots=True)
class JsonStarts(JsonRecords[StartRecord]):
    """`<agent dir>/starts.json`."""

    def record(self, item: dict[str, Any]) -> StartRecord:
        return StartRecord(**{**known_fields(item, _KNOWN, _TIMES), "state": StartState(item["state"])})
