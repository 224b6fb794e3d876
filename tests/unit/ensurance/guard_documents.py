"""A scene with the documents of operators, and those that most tests apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ensurance_scene import Scene

from slackwater.resources.kind import Kind
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.kinds.pod_qos import POD_QOS

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
    """Ensurance with documents to apply: each is stored, and every node follows it."""

    async def apply(self, kind: Kind, name: str, spec: Mapping[str, Any]) -> None:
        document = kind.model_of(name).parse({"metadata": {"name": name}, "spec": spec})
        await self.changes[kind].put(document, by="test")

    async def allow_evictions(self, **autonomy: Any) -> None:
        """Class BE may be evicted for prod's pressure; the pool `default` may go that far."""
        await self.apply(AVOIDANCE_ACTION, "evict", EVICT)
        await self.apply(POD_QOS, "default", BE)
        await self.apply(AUTONOMY, "default", {"mode": "evict"} | autonomy)
        await self.apply(NODE_QOS, "evicting", {"rules": [PRESSED]})
        await self.without_throttles()

    async def without_throttles(self) -> None:
        await self.change(rules=())
