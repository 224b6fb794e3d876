"""A scene with the documents of operators, and those that most tests apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ensurance_scene import Scene

from slackwater.ensurance.usecases.change_documents import ChangeDocuments
from slackwater.ensurance.usecases.documents_in_force import ACTIONS, AUTONOMIES, KINDS, NODES, PODS, Kind

EVICT: Mapping[str, Any] = {"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False}
BE: Mapping[str, Any] = {
    "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
    "allowedActions": ["throttle", "evict"],
}
PRESSED: Mapping[str, Any] = {
    "name": "last-resort",
    "metricRule": {"name": "prod_cpu_pressure", "value": 0.1},
    "actionName": "evict",
    "coolDownSeconds": 3,
}


class DocumentScene(Scene):
    """Ensurance with every kind of document. `apply` stores one and lets every node follow it."""

    def start(self) -> None:
        super().start()
        self.changes = {kind: ChangeDocuments(kind, self.stores[kind], self.change.catch_up) for kind in KINDS}

    async def apply(self, kind: Kind, name: str, spec: Mapping[str, Any]) -> None:
        document = kind.model.parse({"metadata": {"name": name}, "spec": spec})
        await self.changes[kind].put(document, by="test")

    async def allow_evictions(self, **autonomy: Any) -> None:
        """Class BE may be evicted for prod's pressure; the pool `default` may go that far."""
        await self.apply(ACTIONS, "evict", EVICT)
        await self.apply(PODS, "default", BE)
        await self.apply(AUTONOMIES, "default", {"mode": "evict"} | autonomy)
        await self.apply(NODES, "evicting", {"rules": [PRESSED]})
        await self.without_throttles()

    async def without_throttles(self) -> None:
        present = self.change.current()
        await self.change(present.model_copy(update={"spec": present.spec.model_copy(update={"rules": ()})}))
