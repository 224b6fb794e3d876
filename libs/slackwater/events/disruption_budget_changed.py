"""disruption_budget.changed: a PodDisruptionBudget of the cluster, with the counts of its pods. Last value of each."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, JsonDocument, Moment, Name


class DisruptionBudgetChanged(Payload):
    """The budget as the API server has it. `selector` is that of the object: matchLabels and matchExpressions; an empty
    one selects all pods of the namespace. `min_available` and `max_unavailable` are as written: a count, a percent
    like `10%`, or empty. `allowed` is how many disruptions the API server allows now, of `expected` pods of which
    `healthy` are ready. `unready_always`: its unhealthyPodEvictionPolicy is AlwaysAllow. `gone`: there is no such
    budget any more.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "disruption_budget.changed"
    STREAM: ClassVar[str] = "STATE"

    namespace: Name
    name: Name
    selector: JsonDocument
    min_available: Name = ""
    max_unavailable: Name = ""
    expected: Count
    healthy: Count
    allowed: Count
    unready_always: bool = False
    gone: bool = False
    changed_at: Moment

    def key(self) -> str:
        return f"{self.namespace}/{self.name}"
