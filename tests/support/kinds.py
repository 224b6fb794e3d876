"""A resource kind served from memory, for the conformance suite of kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from tests.support.resources import MemoryResourceStore

from slackwater.resources.change import ChangeResources
from slackwater.resources.hooks import Hooks
from slackwater.resources.in_force import ResourcesInForce
from slackwater.resources.kind import Kind, loaded
from slackwater.resources.names import API_VERSION
from slackwater.runtime.http import build_app
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

NAME = "gold"


class KindScene:
    """One replica that serves and follows one resource kind."""

    def __init__(
        self, kind: Kind, hooks: Hooks[Any, Any] | None = None, store: MemoryResourceStore | None = None
    ) -> None:
        """`hooks` None: creates the declared hooks without arguments."""
        self.kind = kind
        self.store = store or MemoryResourceStore(kind)
        self.hooks: Hooks[Any, Any] = hooks or (loaded(kind.hooks)() if kind.hooks else Hooks())
        self.in_force = ResourcesInForce(kind, self.store, self.hooks)
        self.change = ChangeResources(kind, self.store, self.in_force, self.hooks)

    async def open(self) -> KindScene:
        await self.in_force.load()
        return self

    def document(self, generation: int = 0, name: str = NAME, **spec: Any) -> dict[str, Any]:
        """The example document of the kind."""
        metadata: Mapping[str, Any] = {"name": name} | ({"generation": generation} if generation else {})
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind.name,
            "metadata": metadata,
            "spec": {**self.kind.example, **spec},
        }

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        app = build_app([resource_router(self.change)], no_checks, HttpSettings.local())
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
            yield client


async def no_checks() -> list[Check]:
    return []
