"""The eviction ledger on disk: small, replaced as a whole. One that cannot be read is put aside for a person to look
at: an agent that does not start is worse than an eviction that is asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.durable import replace_synced
from slackwater.agent.domain.ledger import EvictionRecord
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_TIMES = ("deadline", "started_at", "completed_at")
_KNOWN = frozenset(field.name for field in fields(EvictionRecord))


@dataclass(frozen=True, slots=True)
class JsonLedger:
    """`<agent dir>/evictions.json`."""

    path: Path
    disk: DiskFiles = OS_FILES

    def load(self) -> dict[str, EvictionRecord]:
        try:
            raw: list[dict[str, Any]] = json.loads(self.disk.read(self.path))
            return {item["id"]: _record(item) for item in raw}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as error:
            aside = self.path.with_name(f"{self.path.name}.unreadable")
            with suppress(OSError):  # a read-only disk: the file stays where it is
                self.disk.rename(self.path, aside)
            _log.error("ledger not readable", file=str(aside), error=repr(error))
            return {}

    def save(self, records: Mapping[str, EvictionRecord]) -> None:
        items = [asdict(record) for record in records.values()]
        content = json.dumps(items, default=datetime.isoformat, indent=1).encode()
        replace_synced(self.path, content, self.disk)


def _record(item: dict[str, Any]) -> EvictionRecord:
    """Of a newer version, what is known here."""
    times = {name: datetime.fromisoformat(item[name]) if item[name] else None for name in _TIMES}
    return EvictionRecord(**{**{name: value for name, value in item.items() if name in _KNOWN}, **times})
