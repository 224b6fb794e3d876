"""grpc.health.v1: the same checks as /readyz, evaluated on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from slackwater.model.errors import NotFound
from slackwater.runtime.rpc_guard import Exhausted
from slackwater.runtime.service import Check

CHECKS_SECONDS = 3.0
WATCH_SECONDS = 2.0
"""Interval at which a watcher's status is re-evaluated."""
MOST_WATCHES = 100
"""Limit of open watches: they need no authentication, and each is one of the server's open
calls.
"""
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthAnswers(health_pb2_grpc.HealthServicer):
    """Gives one status for all names, because every service of a process needs everything the
    process needs.
    """

    def __init__(
        self, checks: Callable[[], Awaitable[Sequence[Check]]], names: Sequence[str], leaving: asyncio.Event
    ) -> None:
        self._checks = checks
        self._names = frozenset({"", *names})
        self._leaving = leaving
        self._watches = 0

    # The protocol defines these names.
    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.service not in self._names:
            raise NotFound(f"service {request.service!r} is not served here", field="service")
        return health_pb2.HealthCheckResponse(status=await self._status())

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = health_pb2.HealthCheckResponse(status=await self._status())
        return health_pb2.HealthListResponse(  # type: ignore[attr-defined]  # newer than its stubs
            statuses=dict.fromkeys(sorted(self._names), answer)
        )

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        if self._watches >= MOST_WATCHES:
            raise Exhausted(f"{MOST_WATCHES} health watches are open, the limit of this server; use Check instead")
        self._watches += 1
        try:
            async with aclosing(self._changes(request)) as changes:
                async for answer in changes:
                    yield answer
        finally:
            self._watches -= 1

    async def _changes(self, request: Any) -> AsyncGenerator[Any, None]:
        sent = None
        while True:
            status = await self._status() if request.service in self._names else UNKNOWN
            if status != sent:
                sent = status
                yield health_pb2.HealthCheckResponse(status=status)
            if self._leaving.is_set():
                return
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._leaving.wait()
            except TimeoutError:
                continue

    async def _status(self) -> Any:
        if self._leaving.is_set():
            return NOT_SERVING
        try:
            async with asyncio.timeout(CHECKS_SECONDS):
                checks = await self._checks()
        except TimeoutError:
            return NOT_SERVING
        return SERVING if all(check.ok for check in checks) else NOT_SERVING
