"""The eviction ledger on disk."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.records_file import JsonRecords, known_fields
from slackwater.agent.domain.ledger import SIGNALLED, EvictionRecord
from slackwater.model.json_text import parse_json_text

LEDGER = "evictions.json"
_TIMES = ("deadline", "started_at", "completed_at")
_KNOWN = tuple(field.name for field in fields(EvictionRecord))


@dataclass(frozen=True, slots=True)
class JsonLedger(JsonRecords[EvictionRecord]):
    """`<agent dir>/evictions.json`, which only the agent writes."""

    def record(self, item: dict[str, Any]) -> EvictionRecord:
        return EvictionRecord(**known_fields(item, _KNOWN, _TIMES))


def eviction_of(agent_dir: Path, pod_uid: str) -> EvictionRecord | None:
    """Returns the newest eviction of a pod that was signalled; None without one, or without a readable ledger."""
    try:
        items = parse_json_text((agent_dir / LEDGER).read_text())
        records = [EvictionRecord(**known_fields(item, _KNOWN, _TIMES)) for item in items]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    signalled = [record for record in records if record.pod_uid == pod_uid and record.outcome in SIGNALLED]
    return max(signalled, key=lambda record: record.started_at, default=None)
