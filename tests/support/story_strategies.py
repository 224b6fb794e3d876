"""The strategies of the story's nodes: the cluster's, a pool's, and one that keeps its last valid generation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from slackwater.events.envelope import Event, event_of
from slackwater.events.strategy_followed import StrategyFollowed

OWN_ANNOTATION = {"slackwater.io/colocation-strategy": '{"cpuReclaimThresholdPercent": 55, "riseWindows": 4}'}
DEFAULTS: dict[str, Any] = {
    "batchCPUThresholdPercent": 100,
    "bindSettleSeconds": 300.0,
    "cpuCalculatePolicy": "usage",
    "cpuReclaimThresholdPercent": 60,
    "enable": True,
    "memoryCalculatePolicy": "usage",
    "memoryReclaimThresholdPercent": 65,
    "metricAggregatePolicyDurations": ["5m", "10m", "30m"],
    "midReclaimMode": "off",
    "resourceDiffThreshold": 0.1,
    "riseWindows": 2,
}
CLUSTER: dict[str, Any] = {"enable": True, "cpuReclaimThresholdPercent": 80, "midReclaimMode": "dynamic"}
EDGE: dict[str, Any] = {"cpuReclaimThresholdPercent": 70, "memoryReclaimThresholdPercent": 60}
NIGHT: dict[str, Any] = {"cpuReclaimThresholdPercent": 95}


def strategies(start: datetime) -> list[Event[Any]]:
    """One event per document, as colocation publishes them at its start."""
    above = {**DEFAULTS, **CLUSTER}
    events = [
        StrategyFollowed(
            document="default", generation=3, observed_generation=3, nodes="every node", fields=CLUSTER,
            effective=above, changed_by="mara", accepted_at=start - timedelta(days=2), told_at=start,
        ),
        StrategyFollowed(
            document="edge", generation=2, observed_generation=2, nodes="pool edge", precedence=10, fields=EDGE,
            effective={**above, **EDGE}, changed_by="mara", accepted_at=start - timedelta(hours=3), told_at=start,
        ),
        StrategyFollowed(
            document="night", generation=5, observed_generation=4, nodes="role=night; zone In harbour, pier",
            fields=NIGHT, effective={**above, **NIGHT}, changed_by="jon", accepted_at=start - timedelta(days=9),
            problem="spec.cpuReclaimThresholdPercent: 950 is not allowed; 0 to 200", told_at=start,
        ),
    ]  # fmt: skip
    return [
        event_of(event, source="colocation", time=start, id=str(uuid5(NAMESPACE_URL, f"strategy/{event.document}")))
        for event in events
    ]
