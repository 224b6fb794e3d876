"""An installation that recorded something: its API's answers, made from what nodes did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from slackwater.colocation.usecases.colocation_strategy import first_document
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.model.errors import NotFound
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier
from slackwater.offers.document import DEFAULTS

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
GIB = 2**30


def amounts(cpu_milli: int, memory_bytes: int = GIB) -> dict[str, int]:
    return {"cpu_milli": cpu_milli, "memory_bytes": memory_bytes}


@dataclass
class Recorded:
    """One node: what its pod of prod used in each window (None: no report), and the peaks that were predicted."""

    name: str
    usage: Sequence[int | None]
    peaks: Mapping[int, int] = field(default_factory=dict)
    """By window: the peak of prod published after it, in milli-cores."""
    pool: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    capacity: int = 8000
    batch_usage: int = 0
    host_apps: Mapping[str, int] = field(default_factory=dict)
    """By tier: what the one host application of this tier used in every window."""
    pressure: float | None = None
    """Of prod, all the time; None: no reports are kept."""
    annotations: dict[str, str] = field(default_factory=dict)
    started: timedelta = timedelta(days=3)
    """How long before NOW its pods started."""
    pod_labels: dict[str, str] = field(default_factory=dict)
    """Of every pod."""


@dataclass
class SmallInstallation:
    """slackwater.simulation.adapters.recorded_history.Reads. Windows of a minute, the last one over at NOW."""

    nodes: list[Recorded]
    documents: list[dict[str, Any]] = field(default_factory=list)
    page: int = 7
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def get(self, path: str, params: Mapping[str, str | int | None] | None = None) -> Any:
        given = dict(params or {})
        self.asked.append((path, given))
        if path == "/v1/nodes":
            return self._paged([self._node(one) for one in self.nodes], given)
        if path == "/v1/colocationstrategies":
            first = first_document({**DEFAULTS, "enable": True}).model_dump(mode="json", by_alias=True)
            return {"items": [first, *self.documents]}
        if path == "/v1/nodeqos":
            document = EnsuranceSettings.model_construct().first_policy().document()
            document["spec"]["rules"] = document["spec"]["rules"][:1]  # the history has no memory of the node's own
            return {"items": [document]}
        if path in ("/v1/podqos", "/v1/avoidanceactions", "/v1/autonomies"):
            return {"items": []}
        if path == "/v1/pods":
            return self._paged([], given)
        name, what = (unquote(part) for part in path.removeprefix("/v1/nodes/").rsplit("/", 1))
        node = next((one for one in self.nodes if one.name == name), None)
        if node is None:
            raise NotFound(f"no node {name}")
        if what == "windows":
            return self._windows(node, given)
        return self._paged(self._reports(node) if what == "usage" else self._forecasts(node), given)

    def start(self, node: Recorded, number: int) -> datetime:
        return NOW - timedelta(minutes=len(node.usage) - number)

    def _node(self, node: Recorded) -> dict[str, Any]:
        facts = {
            "name": node.name,
            "pool": node.pool,
            "capacity": amounts(node.capacity, 32 * GIB),
            "reserved": amounts(0, 0),
            "labels": node.labels,
            "annotations": node.annotations,
            "numa": [],
        }
        return {"name": node.name, "facts": facts}

    def _windows(self, node: Recorded, given: Mapping[str, Any]) -> dict[str, Any]:
        since, until = (datetime.fromisoformat(given[name]) for name in ("since", "until"))
        found = [
            self._window(node, number, usage)
            for number, usage in enumerate(node.usage)
            if usage is not None
            and self.start(node, number) >= since
            and self.start(node, number) + timedelta(minutes=1) <= until
        ]
        behind = found[self.page]["start"] if len(found) > self.page else None
        return {"items": found[: self.page], "continue": behind}

    def _window(self, node: Recorded, number: int, usage: int) -> dict[str, Any]:
        pods = [
            self._pod(node, *each)
            for each in (("web", "prod", 6000, usage), ("crunch", "batch", 4000, node.batch_usage))
        ]
        apps = [{"name": tier, "tier": tier, "usage": amounts(cpu, 0)} for tier, cpu in node.host_apps.items()]
        return {
            "node": node.name,
            "number": number,
            "start": self.start(node, number).isoformat(),
            "seconds": 60,
            "reports": 12,
            "gaps": 0,
            "usage": amounts(usage + node.batch_usage + 200, 2 * GIB),
            "system": amounts(200),
            "pods": pods,
            **({"host_apps": apps} if apps else {}),
        }

    def _pod(self, node: Recorded, uid: str, tier: str, request: int, usage: int) -> dict[str, Any]:
        qos = "LS" if tier == "prod" else "BE"
        started = NOW - node.started
        return {
            "uid": uid,
            "name": uid,
            "namespace": "default",
            "workload": uid,
            "tier": tier,
            "qos": qos,
            "priority": DEFAULT_PRIORITY[Tier(tier)],
            "labels": node.pod_labels,
            "request": amounts(request, 4 * GIB),
            "usage": amounts(usage),
            "started_at": started.isoformat(),
        }

    def _forecasts(self, node: Recorded) -> list[dict[str, Any]]:
        return [
            {
                "predicted_at": (self.start(node, number) + timedelta(seconds=61)).isoformat(),
                "window_number": number,
                "prod_peak": amounts(peak),
            }
            for number, peak in node.peaks.items()
        ]

    def _reports(self, node: Recorded) -> list[dict[str, Any]]:
        if node.pressure is None:
            return []
        return [
            {
                "sampled_at": (self.start(node, number) + timedelta(seconds=30)).isoformat(),
                "prod_pressure": node.pressure,
                "throttled_pods": 0,
            }
            for number in range(len(node.usage))
        ]

    def _paged(self, items: list[dict[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
        first = int(given.get("continue") or 0)
        more = len(items) > first + self.page
        return {"items": items[first : first + self.page], "continue": str(first + self.page) if more else None}
