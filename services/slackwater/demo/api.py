"""Client of the REST API for the demo: sets policy and queries nodes, pods, decisions and offers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import httpx2

from slackwater.demo.verdict import BrokenPromise
from slackwater.model.errors import Unavailable
from slackwater.resources.catalog import KINDS
from slackwater.runtime.state import Endpoint

Item = dict[str, Any]
NODEQOS = ("nodeqos", "default")
_NAMES = {kind.plural: kind.name for kind in KINDS}
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
        document = {"apiVersion": "slackwater.io/v1alpha1", "kind": _NAMES[kind], "metadata": {"name": name}}
        await self._ask("PUT", f"/v1/{kind}/{name}", json={**document, "spec": spec})

    async def document(self, kind: str, name: str) -> Any:
        """Returns the document in force; None if there is none."""
        return await self.get(f"/v1/{kind}/{name}")

    async def put_back(self, kind: str, name: str, document: Mapping[str, Any] | None) -> None:
        """Restore what `document` returned."""
        path = f"/v1/{kind}/{name}"
        if document is not None and document["metadata"].get("generation"):
            await self._ask("PUT", path, json=document, headers=_ANY_GENERATION)
        elif ((await self.get(path)) or {"metadata": {}})["metadata"].get("generation"):
            await self.delete(path, headers=_ANY_GENERATION)

    async def observe(self) -> None:
        """Keep the policy, and act on nothing: every limit is put back."""
        present = await self.document(*NODEQOS) or {"spec": {}}
        await self.put(*NODEQOS, {**present["spec"], "mode": "observe"})

    async def nodes(self) -> dict[str, Item]:
        """Returns the facts of every node that has reported them, by name."""
        return {node["name"]: node["facts"] for node in await self.items("/v1/nodes") if node["facts"]}

    async def live(self) -> set[str]:
        """Returns the nodes that are not lost, those of an earlier run too until they are."""
        return {node["name"] for node in await self.items("/v1/nodes") if node["liveness"] not in (None, "lost")}

    async def offer(self) -> Item | None:
        """Returns the offer of the node in force; None before the first."""
        return next((item for item in await self.items("/v1/offers") if item["node"] == self.node), None)

    async def decisions(self, kind: str) -> list[Item]:
        """Returns the decisions of this run of a kind, in any order."""
        return await self.items("/v1/decisions", kind=kind, since=self.since.isoformat(), limit=500)

    async def items(self, path: str, **parameters: str | int) -> list[Item]:
        """Returns the items of a list; empty where there is no list."""
        answer = await self.get(path, **parameters)
        return answer["items"] if answer else []

    async def get(self, path: str, **parameters: str | int) -> Any:
        """Returns the answer; None where there is none."""
        return await self._ask("GET", path, params=parameters)

    async def delete(self, path: str, **how: Any) -> None:
        """Delete what is there; nothing if it is gone."""
        await self._ask("DELETE", path, **how)

    async def _ask(self, method: str, path: str, **how: Any) -> Any:
        """Asks until the server has an answer: on a busy machine it may be away for a while."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                answer = await self._client.request(method, path, **how)
            except httpx2.HTTPError as error:
                problem = f"{method} {path}: {error!r}"
            else:
                if answer.status_code < 300:
                    return answer.json()
                if answer.status_code == 404 and method != "PUT":
                    return None
                problem = f"{method} {path} answered {answer.status_code}: {answer.text[:200]}"
                if answer.status_code < 500:
                    raise BrokenPromise(problem)
            if (task := asyncio.current_task()) and task.cancelling():  # the server stops with this run
                raise asyncio.CancelledError(problem)
            if time.monotonic() > deadline:
                raise Unavailable(problem)
            await asyncio.sleep(_RETRY_SECONDS)
