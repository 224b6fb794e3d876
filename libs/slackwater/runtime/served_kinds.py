"""A resource kind that a service serves as its declaration says, without code in its composition root."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from slackwater.resources.change import ChangeResources
from slackwater.resources.hooks import Hooks
from slackwater.resources.in_force import ResourcesInForce
from slackwater.resources.kind import Kind, loaded
from slackwater.runtime.loops import Repeat
from slackwater.runtime.resource_metrics import KindMetrics
from slackwater.runtime.resource_news import ResourceNews, unusable_text
from slackwater.runtime.service import Check
from slackwater.telemetry.metrics import process_meters

if TYPE_CHECKING:
    from fastapi import APIRouter

    from slackwater.model.time import Clock
    from slackwater.resources.store import ResourceStore
    from slackwater.runtime.partition_sharding import Ownership
    from slackwater.store.quarantine import Quarantine

READ_SECONDS = 5.0
"""Interval at which a replica that is not told of changes reads the documents again."""


class ServedKind:
    """Store, routes and news of one kind. What the service follows is `in_force.now`; `in_force.on_change` notifies."""

    def __init__(
        self,
        kind: Kind,
        store: ResourceStore,
        quarantine: Quarantine,
        clock: Clock,
        ownership: Ownership | None,
        hooks: Hooks[Any, Any] | None = None,
    ) -> None:
        """`hooks` None: those of the declaration, made without arguments."""
        self.kind = kind
        self._hooks: Hooks[Any, Any] = hooks or (loaded(kind.hooks)() if kind.hooks else Hooks())
        self._store = store
        meter = KindMetrics(process_meters()).of(kind)
        self.in_force: ResourcesInForce[Any, Any] = ResourcesInForce(kind, store, self._hooks, meter)
        self.in_force.on_read(lambda problems: quarantine.follow(kind.table or kind.plural, problems))
        self._news = ResourceNews(self.in_force, clock)
        self.follow: Callable[[], Coroutine[Any, Any, None]] = self._news.follow
        if ownership is not None:
            ownership.on_news(self._news.notify)
        else:
            self.follow = Repeat(
                work=self.in_force.catch_up,
                clock=clock,
                seconds=READ_SECONDS,
                pause_first=True,
                missed="documents are read later",
            )

    def router(self) -> APIRouter:
        from slackwater.runtime.resource_routes import resource_router

        return resource_router(self.changes())

    def changes(self) -> ChangeResources[Any, Any]:
        """Returns the use case of its routes: put and delete documents."""
        return ChangeResources(self.kind, self._store, self.in_force, self._hooks)

    def check(self, service: str) -> Check:
        """Returns the number of documents that are followed, and those that cannot be used."""
        followed = f"{len(self.in_force.now.values)} documents{unusable_text(self.in_force.problems)}"
        return Check(f"{service}-{self.kind.plural}", True, followed)
