"""Listed events, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.console.domain.event_log import EventFilter, ListedEvent


class MemoryEvents:
    """Implements slackwater.console.ports.EventReads and the related write."""

    def __init__(self) -> None:
        super().__init__()
        self._listed: dict[str, ListedEvent] = {}

    async def save_events(self, rows: Sequence[ListedEvent]) -> None:
        for row in rows:
            self._listed.setdefault(row.id, row)

    async def events(self, wanted: EventFilter) -> Sequence[ListedEvent]:
        found = [row for row in self._listed.values() if _matches(row, wanted)]
        return sorted(found, key=lambda row: (row.time, row.id), reverse=True)[: wanted.limit]


def _matches(row: ListedEvent, wanted: EventFilter) -> bool:
    return (
        (wanted.types is None or row.type in wanted.types)
        and wanted.node in (None, row.node)
        and wanted.trace in (None, row.trace)
        and (wanted.since is None or row.time >= wanted.since)
        and (wanted.until is None or row.time <= wanted.until)
        and (wanted.before is None or (row.time, row.id) < wanted.before)
    )
