"""The quarantine in memory, for use cases without a stored one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from slackwater.events.state_quarantined import StateQuarantined
from slackwater.store.quarantine import MOST_ITEMS, Item, Quarantine, quarantine_event


class MemoryQuarantine:
    """slackwater.store.quarantine.QuarantineStore. `told` holds the events in order."""

    def __init__(self) -> None:
        self.kept: dict[str, Item] = {}
        self.told: list[StateQuarantined] = []

    async def items(self) -> Sequence[Item]:
        return sorted(self.kept.values(), key=lambda item: (item.since, item.id))

    async def put(self, item: Item) -> bool:
        known = self.kept.get(item.id)
        if known is not None:
            self.kept[item.id] = replace(item, since=known.since, count=known.count + item.count)
            return True
        if len(self.kept) >= MOST_ITEMS:
            return False
        self.kept[item.id] = item
        self.told.append(quarantine_event(item, item.failed_at, released=False))
        return True

    async def remove(self, item_id: str, now: datetime) -> Item | None:
        item = self.kept.pop(item_id, None)
        if item is not None:
            self.told.append(quarantine_event(item, now, released=True))
        return item


def unstored(service: str = "none") -> Quarantine:
    """Returns a quarantine that ends with the process."""
    return Quarantine(service, MemoryQuarantine())
