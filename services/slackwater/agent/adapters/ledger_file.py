"""The eviction ledger on disk: small, replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.durable import replace_synced
from slackwater.agent.domain.ledger import EvictionRecord

_TIMES = ("deadline", "started_at", "completed_at")


@dataclass(frozen=True, slots=True)
class JsonLedger:
    """`<agent dir>/evictions.json`."""

    path: Path

    def load(self) -> dict[str, EvictionRecord]:
        try:
            raw: list[dict[str, Any]] = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        return {item["id"]: _record(item) for item in raw}

    def save(self, records: Mapping[str, EvictionRecord]) -> None:
        items = [asdict(record) for record in records.values()]
        replace_synced(self.path, json.dumps(items, default=datetime.isoformat, indent=1).encode())


def _record(item: dict[str, Any]) -> EvictionRecord:
    times = {name: datetime.fromisoformat(item[name]) if item[name] else None for name in _TIMES}
    return EvictionRecord(**{**item, **times})
