"""Client of the REST API for the demo: sets policy and queries nodes, pods, decisions and offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import httpx2

from slackwater.demo.summary import OfferLine, RunCounts
from slackwater.model.errors import Unavailable
from slackwater.runtime.state import Endpoint

_PAGE = 500
EXCESS_RATIO = 1.0
"""Release twice the measured gap: "some" pressure is a lower bound, and a surge of seconds leaves few cycles."""
KINDS = {
    "avoidanceactions": "AvoidanceAction",
    "podqos": "PodQOS",
    "nodeqos": "NodeQOS",
    "autonomies": "Autonomy",
    "elasticquotas": "ElasticQuota",
    "arbitrationargs": "ArbitrationArgs",
    "podmigrationjobs": "PodMigrationJob",
}


@dataclass(slots=True)
class Api:
    """REST client. Raises Unavailable with the server's message if a request fails."""

    endpoint: Endpoint
    since: datetime
    node: str | None = None
    """Restricts results to this node; None: the whole fleet. The database may contain nodes of earlier runs."""
    _client: httpx2.AsyncClient = field(init=False)
    _before: RunCounts = field(default_factory=RunCounts)

    def __post_init__(self) -> None:
        headers = {"authorization": f"Bearer {self.endpoint.token}"} if self.endpoint.token else {}
        self._client = httpx2.AsyncClient(base_url=self.endpoint.http_url, headers=headers, timeout=10)

    async def __aenter__(self) -> Self:
        self._before = await self._totals()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def policy(self) -> dict[str, Any]:
        """The NodeQOS document in force."""
        document: dict[str, Any] = await self._get("/v1/nodeqos/default")
        return document

    async def apply(self, document: Mapping[str, Any]) -> None:
        """Replace the NodeQOS document unconditionally."""
        await self._ask("PUT", "/v1/nodeqos/default", json=document, headers={"if-match": "*"})

    async def put(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """Write a document of a kind, named by its path, unconditionally."""
        document = {"apiVersion": "slackwater.io/v1alpha1", "kind": KINDS[kind], "metadata": {"name": name}}
        await self._ask("PUT", f"/v1/{kind}/{name}", json={**document, "spec": spec})

    async def document(self, kind: str, name: str) -> dict[str, Any] | None:
        """The document in force; None if there is none."""
        return await self._found(f"/v1/{kind}/{name}")

    async def _found(self, path: str) -> dict[str, Any] | None:
        answer = await self._client.get(path)
        if answer.status_code == 404:
            return None
        found: dict[str, Any] = answer.json()
        return found

    async def put_back(self, kind: str, name: str, document: Mapping[str, Any] | None) -> None:
        """Restore what `document` returned."""
        if document is None or not document["metadata"].get("generation"):
            await self._ask("DELETE", f"/v1/{kind}/{name}", headers={"if-match": "*"})
        else:
            await self._ask("PUT", f"/v1/{kind}/{name}", json=document, headers={"if-match": "*"})

    async def set_mode(self, mode: str, weights: str, waterline: float | None = None) -> None:
        """Set the CPU weight policy, the mode, and the waterline on CPU pressure, above which quotas come at once."""
        document = await self.policy()
        spec = document["spec"]
        spec["mode"], spec["weights"] = mode, weights
        if waterline is not None:
            for rule in spec["rules"]:
                if rule["metricRule"]["name"] == "prod_cpu_pressure":
                    rule["metricRule"]["value"] = waterline
            spec["throttle"] |= {"excessRatio": EXCESS_RATIO, "quotaAfterSeconds": 0}
        await self.apply(document)

    async def nodes(self) -> list[dict[str, Any]]:
        """Every node with its facts."""
        items: list[dict[str, Any]] = (await self._get("/v1/nodes"))["items"]
        return items

    async def pods(self) -> list[dict[str, Any]]:
        """Every pod as last reported."""
        items: list[dict[str, Any]] = (await self._get("/v1/pods"))["items"]
        return items

    async def quota_tree(self) -> dict[str, Any]:
        """The ledger of the default quota tree."""
        found: dict[str, Any] = await self._get("/v1/quotas/root/tree")
        return found

    async def claims(self, quota: str) -> list[dict[str, Any]]:
        """The claims of a quota that have not ended; none of a quota that does not exist."""
        if await self.document("elasticquotas", quota) is None:
            return []
        items: list[dict[str, Any]] = (await self._get(f"/v1/quotas/{quota}/claims"))["items"]
        return items

    async def claim(self, claim: str) -> dict[str, Any] | None:
        """One claim, also one that has ended lately; None before it was submitted."""
        return await self._found(f"/v1/claims/{claim}")

    async def release(self, quota: str, claim: str) -> None:
        """End a claim, in whatever state it is."""
        await self._ask("DELETE", f"/v1/quotas/{quota}/claims/{claim}")

    async def decisions(self) -> list[dict[str, Any]]:
        """Throttle and restore decisions of this run, oldest first."""
        found = [item for kind in ("throttle", "restore") for item in await self._decisions(kind)]
        own = [item for item in found if self._is_ours(item["node"])]
        return sorted(own, key=lambda item: (item["decided_at"], item["id"]))

    async def counts(self) -> RunCounts:
        """The events since the start of the run."""
        now, before = await self._totals(), self._before
        return RunCounts(
            reports=max(0, now.reports - before.reports),
            windows=max(0, now.windows - before.windows),
            predictions=max(0, now.predictions - before.predictions),
            offers=max(0, now.offers - before.offers),
            decisions=await self._decided(now, before),
        )

    async def _decided(self, now: RunCounts, before: RunCounts) -> dict[str, int]:
        """The number of decisions by kind since the start of the run, without throttles and restores of other nodes."""
        decided = {kind: n - before.decisions.get(kind, 0) for kind, n in now.decisions.items()}
        if self.node is not None:
            for kind in ("throttle", "restore"):
                items = await self._decisions(kind)
                decided[kind] = sum(self._is_ours(item["node"]) for item in items)
        return decided

    def _is_ours(self, node: str) -> bool:
        return self.node is None or node == self.node

    async def offers(self) -> tuple[OfferLine, ...]:
        """The offer in force of every selected node."""
        return tuple(
            OfferLine(
                node=item["node"],
                cpu_milli=item["batch"]["cpu_milli"],
                memory_bytes=item["batch"]["memory_bytes"],
                decision_ids=item["decision_ids"],
            )
            for item in (await self._get("/v1/offers"))["items"]
            if self._is_ours(item["node"])
        )

    async def _totals(self) -> RunCounts:
        found = await self._get("/v1/counts")
        decisions: dict[str, int] = {}
        for item in found["decisions"]:
            decisions[item["kind"]] = decisions.get(item["kind"], 0) + item["count"]
        return RunCounts(
            reports=found["reports"],
            windows=await self._windows_closed(),
            predictions=found["predictions"],
            offers=found["offers"],
            decisions=decisions,
        )

    async def _windows_closed(self) -> int:
        """Ingestion's count since the start of the process, from its metrics, because the console keeps no windows."""
        try:
            answer = await self._client.get("/metrics")
        except httpx2.HTTPError as error:
            raise Unavailable(f"no answer from {self._client.base_url}/metrics: {error}") from error
        return int(counter_total(answer.text, "slackwater_ingestion_windows_closed_total"))

    async def _decisions(self, kind: str) -> list[dict[str, Any]]:
        answer = await self._get("/v1/decisions", {"kind": kind, "since": self.since.isoformat(), "limit": _PAGE})
        items: list[dict[str, Any]] = answer["items"]
        return items

    async def _get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        return await self._ask("GET", path, params=parameters)

    async def _ask(self, method: str, path: str, **how: Any) -> Any:
        try:
            answer = await self._client.request(method, path, **how)
        except httpx2.HTTPError as error:
            raise Unavailable(f"{method} {path}: {error!r}") from error
        if answer.status_code >= 300:
            raise Unavailable(f"{method} {path} answered {answer.status_code}: {answer.text[:300]}")
        return answer.json()


def counter_total(exposition: str, name: str) -> float:
    """The sum over all label sets of one counter in the Prometheus text format; 0 if it is absent."""
    found = (line.rsplit(" ", 1) for line in exposition.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
    return sum(float(value) for _, value in found)
