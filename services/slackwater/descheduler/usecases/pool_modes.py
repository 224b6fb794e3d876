"""How far each pool may go, from the documents of ensurance: what a move needs besides a plan."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from slackwater.decisions.reasons import Mode
from slackwater.events.envelope import Event
from slackwater.events.resource_changed import ResourceChanged
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.names import CLUSTER


class PoolModes:
    """Level-triggered: only the newest generation of a document counts."""

    def __init__(self) -> None:
        self._cluster = Mode.OBSERVE
        self._pools: dict[str, tuple[str, Mode, bool]] = {}
        """By name of the Autonomy: the pool, its mode, and whether its budget of evictions is 0."""

    async def receive(self, event: Event[ResourceChanged]) -> None:
        """Note a document; kinds that say nothing of modes are passed over."""
        changed = event.data
        spec: Any = (changed.document or {}).get("spec") or {}
        mode = Mode(spec["mode"]) if spec.get("mode") in set(Mode) else Mode.OBSERVE
        if changed.kind == NODE_QOS.name and changed.name == CLUSTER:
            self._cluster = mode
        elif changed.kind == AUTONOMY.name:
            self._pools.pop(changed.name, None)
            if not changed.deleted:
                has_none = spec.get("evictionsPerHour") == 0
                self._pools[changed.name] = str(spec.get("nodePool") or changed.name), mode, has_none

    def obstacles(self, pools: Collection[str]) -> list[str]:
        """Returns why moves out of these pools cannot be carried out; empty: they can."""
        grants = {pool: (mode, has_none) for pool, mode, has_none in self._pools.values()}
        found = {pool: grants.get(pool, (self._cluster, False)) for pool in sorted(set(pools))}
        return [
            f"pool {pool} is in mode {mode.value}, which evicts nothing: its Autonomy must have mode evict"
            if mode is not Mode.EVICT
            else f"pool {pool} may evict 0 pods an hour: its Autonomy must have evictionsPerHour above 0"
            for pool, (mode, has_none) in found.items()
            if mode is not Mode.EVICT or has_none
        ]
