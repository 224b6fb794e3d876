"""Client of the REST API for the demo: sets policy and queries nodes, pods, decisions and offers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import httpx2

from slackwater.demo.verdict import BrokenPromise
from slackwater.model.errors import Unavailable
from slackwater.runtime.state import Endpoint

Item = dict[str, Any]
KINDS = {
    "avoidanceactions": "AvoidanceAction",
    "podqos": "PodQOS",
    "nodeqos": "NodeQOS",
    "autonomies": "Autonomy",
    "elasticquotas": "ElasticQuota",
    "arbitrationargs": "ArbitrationArgs",
    "podmigrationjobs": "PodMigrationJob",
}
NODEQOS = ("nodeqos", "default")
_PATIENCE_SECONDS, _RETRY_SECONDS = 30.0, 0.5
_ANY_GENERATION = {"if-match": "*"}


@dataclass(slots=True)
class Api:
    """REST client. Raises Unavailable with the server's message if a request fails, BrokenPromise if it is refused."""

    endpoint: Endpoint
    since: datetime
    node: str
    """The node that the scenes run on."""
    _client: httpx2.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        headers = {"authorization": f"Bearer {self.endpoint.token}"} if self.endpoint.token else {}
        self._client = httpx2.AsyncClient(base_url=self.endpoint.http_url, headers=headers, timeout=20)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def put(self, kind: str, name: str, spec: Mapping[str, Any]) -> None:
        """Write a document of a kind, named by its path, unconditionally."""
        document = {"apiVersion": "slackwater.io/v1alpha1", "kind": KINDS[kind], "metadata": {"name": name}}
        await self._ask("PUT", f"/v1/{kind}/{name}", json={**document, "spec": spec})

    async def document(self, kind: str, name: str) -> Item | None:
        """Returns the document in force; None if there is none."""
        return await self._optional(f"/v1/{kind}/{name}")

    async def put_back(self, kind: str, name: str, document: Mapping[str, Any] | None) -> None:
        """Restore what `document` returned."""
        path = f"/v1/{kind}/{name}"
        if document is not None and document["metadata"].get("generation"):
            await self._ask("PUT", path, json=document, headers=_ANY_GENERATION)
        elif ((await self._optional(path)) or {"metadata": {}})["metadata"].get("generation"):
            await self._ask("DELETE", path, headers=_ANY_GENERATION)

    async def observe(self) -> None:
        """Keep the policy, and act on nothing: every limit is put back."""
        present = await self.document(*NODEQOS) or {"spec": {}}
        await self.put(*NODEQOS, {**present["spec"], "mode": "observe"})

    async def nodes(self) -> dict[str, Item]:
        """Returns the facts of every node that has reported them, by name."""
        items: list[Item] = (await self._ask("GET", "/v1/nodes"))["items"]
        return {node["name"]: node["facts"] for node in items if node["facts"]}

    async def pods(self) -> list[Item]:
        """Returns every pod as last reported."""
        items: list[Item] = (await self._ask("GET", "/v1/pods"))["items"]
        return items

    async def reports(self, node: str, since: datetime, until: datetime | None) -> list[Item]:
        """Returns the reports of a node in a time, oldest first; until now where `until` is None."""
        parameters = {"since": since.isoformat()} | ({} if until is None else {"until": until.isoformat()})
        items: list[Item] = (await self._ask("GET", f"/v1/nodes/{node}/usage", params=parameters))["items"]
        return items

    async def offer(self) -> Item | None:
        """Returns the offer of the node in force; None before the first."""
        items: list[Item] = (await self._ask("GET", "/v1/offers"))["items"]
        return next((item for item in items if item["node"] == self.node), None)

    async def quota_tree(self) -> Item:
        """Returns the ledger of the default quota tree."""
        tree: Item = await self._ask("GET", "/v1/quotas/root/tree")
        return tree

    async def claim(self, claim: str) -> Item | None:
        """Returns a claim, also one that has ended lately; None before it was submitted."""
        return await self._optional(f"/v1/claims/{claim}")

    async def release(self, quota: str, claim: str) -> None:
        """End a claim, in whatever state it is."""
        await self._ask("DELETE", f"/v1/quotas/{quota}/claims/{claim}")

    async def decisions(self, *kinds: str) -> list[Item]:
        """Returns the decisions of this run of these kinds, oldest first."""
        found: list[Item] = []
        for kind in kinds:
            parameters = {"kind": kind, "since": self.since.isoformat(), "limit": 500}
            found += (await self._ask("GET", "/v1/decisions", params=parameters))["items"]
        return sorted(found, key=lambda item: (item["decided_at"], item["id"]))

    async def decision_to_explain(self) -> str:
        """Returns the id of a decision of this run that shows something: an eviction, a throttle, or the last offer's;
        empty if there is none."""
        acted: Sequence[Item] = await self.decisions("evict") or await self.decisions("throttle")
        if acted:
            return str(acted[-1]["id"])
        offer = await self.offer() or {}
        return str(next(iter(offer.get("decision_ids", {}).values()), ""))

    async def _optional(self, path: str) -> Item | None:
        return await self._ask("GET", path, is_optional=True)  # type: ignore[no-any-return]

    async def _ask(self, method: str, path: str, *, is_optional: bool = False, **how: Any) -> Any:
        """Asks until the server has an answer: on a busy machine it may be away for a while."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer, problem = await self._answer(method, path, **how)
            if answer is not None and answer.status_code < 300:
                return answer.json()
            if answer is not None and answer.status_code < 500:
                if is_optional and answer.status_code == 404:
                    return None
                raise BrokenPromise(problem)
            if time.monotonic() > deadline:
                raise Unavailable(problem)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _answer(self, method: str, path: str, **how: Any) -> tuple[httpx2.Response | None, str]:
        try:
            answer = await self._client.request(method, path, **how)
        except httpx2.HTTPError as error:
            return None, f"{method} {path}: {error!r}"
        return answer, f"{method} {path} answered {answer.status_code}: {answer.text[:200]}"
