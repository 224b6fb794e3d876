"""The eviction ledger on disk."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from slackwater.agent.adapters.records_file import JsonRecords, known_fields
from slackwater.agent.domain.ledger import EvictionRecord

_TIMES = ("deadline", "started_at", "completed_at")
_KNOWN = tuple(field.name for field in fields(EvictionRecord))


@dataclass(frozen=True, slots=True)
class JsonLedger(JsonRecords[EvictionRecord]):
    """`<agent dir>/evictions.json`."""

    def record(self, item: dict[str, Any]) -> EvictionRecord:
        return EvictionRecord(**known_fields(item, _KNOWN, _TIMES))
