"""Publishes the health of this process and its services every few seconds: one small event without
acknowledgement.

It serves deployments of several processes: no service reads another one's schema, so each reports
its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Bus
from slackwater.events.envelope import event_of
from slackwater.events.health_reported import (
    ConsumerHealth,
    HealthCheck,
    HealthReported,
    LeaseHealth,
    LimitedHealth,
    ServiceHealth,
)
from slackwater.model.errors import Unavailable
from slackwater.model.limited_resource import LimitedResource
from slackwater.model.time import Clock
from slackwater.runtime.ownership import LeaseRow
from slackwater.runtime.service import Check, Sharded
from slackwater.runtime.version import version
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from fastapi import APIRouter

    from slackwater.runtime.supervisor import Supervised

log = get_logger(__name__)
INTERVAL_SECONDS = 5.0
ASK_SECONDS = 2.0
"""How long one service may take to answer, so that the report of the others is not overdue."""


class OutboxNumbers(Protocol):
    """slackwater.store.port.Backlog as a protocol, for code that must not import the
    store.
    """

    @property
    def depth(self) -> int: ...
    @property
    def oldest_age_seconds(self) -> float: ...
    @property
    def refused(self) -> int: ...


Outbox = Callable[[str], Awaitable[OutboxNumbers | None]]
"""Returns the outbox of a service by its name; None for a service without one."""


class HealthReports:
    """slackwater.runtime.service.Service. It reports nothing before `watch`."""

    name = "health"

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        outbox: Outbox,
        limited: Callable[[], Sequence[LimitedResource]] = tuple,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._bus = bus
        self._limited = limited
        self._clock = clock
        self._outbox = outbox
        self._interval = interval_seconds
        self._watched: Sequence[Supervised] = ()
        self._started_at = clock.now()
        self._instance = f"{socket.gethostname()}-{os.getpid()}"

    def watch(self, supervised: Sequence[Supervised]) -> None:
        """Set the services of the process to report on."""
        self._watched = [each for each in supervised if each.name not in (self.name, "http", "grpc", "watch", "broker")]

    async def run(self, started: Callable[[], None]) -> None:
        """Report until cancelled. A report that the bus refuses is dropped, because the next one is
        newer.
        """
        started()
        while True:
            await self._clock.sleep(self._interval)
            try:
                await self.report()
            except Unavailable as error:
                log.info("health was not reported", reason=error.message)

    async def checks(self) -> Sequence[Check]:
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()

    async def report(self) -> None:
        """Collect and publish one report. Raises Unavailable."""
        services = await asyncio.gather(*(self._service(each) for each in self._watched))
        now = self._clock.now()
        data = HealthReported(
            instance=self._instance,
            version=version(),
            started_at=self._started_at,
            reported_at=now,
            interval_seconds=self._interval,
            services=tuple(services),
            consumers=tuple(_consumer(name, stats) for name, stats in sorted(_stats(self._bus).items())),
            limited=tuple(_limited(each) for each in self._limited()),
        )
        await self._bus.publish(event_of(data, source=f"health/{self._instance}", time=now))

    async def _service(self, entry: Supervised) -> ServiceHealth:
        outbox, checks = await self._outbox_of(entry.name), await self._checks(entry)
        standing = entry.service.standing() if isinstance(entry.service, Sharded) else None
        return ServiceHealth(
            name=entry.name,
            state=entry.state.value,
            restarts=entry.restarts,
            last_error=entry.last_error,
            checks=tuple(HealthCheck(name=check.name, ok=check.ok, detail=check.detail) for check in checks),
            outbox_depth=outbox.depth if outbox else None,
            outbox_oldest_seconds=round(outbox.oldest_age_seconds, 3) if outbox else None,
            outbox_refused=outbox.refused if outbox else None,
            member=standing.member if standing else None,
            members=standing.members if standing else 0,
            leases=tuple(_lease(row) for row in standing.leases) if standing else (),
        )

    async def _checks(self, entry: Supervised) -> Sequence[Check]:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await entry.service.checks() if entry.state.value == "running" else ()
        except Unavailable as error:
            return [Check(entry.name, False, error.message)]
        except TimeoutError:
            return [Check(entry.name, False, f"no answer within {ASK_SECONDS:g} s")]

    async def _outbox_of(self, service: str) -> OutboxNumbers | None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await self._outbox(service)
        except (Unavailable, TimeoutError):
            return None


def _limited(resource: LimitedResource) -> LimitedHealth:
    return LimitedHealth(kind=resource.kind.value, name=resource.name, used=resource.used, limit=resource.limit)


def _lease(row: LeaseRow) -> LeaseHealth:
    return LeaseHealth(partition=row.partition, owner=row.owner, epoch=row.epoch, since=row.since)


def _stats(bus: Bus) -> Mapping[str, Counters]:
    """Returns the bus's counters; empty for a test bus without them."""
    stats = getattr(bus, "stats", None)
    return stats() if stats is not None else {}


def _consumer(name: str, stats: Counters) -> ConsumerHealth:
    return ConsumerHealth(
        name=name,
        delivered=stats.delivered,
        done=stats.done,
        retried=stats.retried,
        rejected=stats.rejected,
        undecodable=stats.undecodable,
        exhausted=stats.exhausted,
        handler_failures=stats.handler_failures,
    )
