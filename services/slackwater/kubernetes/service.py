"""The composition root of kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.kind_follower import KindFollower
from slackwater.apiserver.port import ApiServer
from slackwater.apiserver.records import KINDS
from slackwater.kubernetes.adapters.decision_outbox import OutboxDecisions
from slackwater.kubernetes.adapters.http_api_server import HttpApiServer
from slackwater.kubernetes.adapters.metrics import KubernetesMetrics
from slackwater.kubernetes.edge.checks import inventory_check, status_check
from slackwater.kubernetes.edge.offer_watch import OfferWatch
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.offers_read import OffersRead
from slackwater.kubernetes.usecases.write_status import WriteStatus
from slackwater.runtime.loops import Repeat
from slackwater.runtime.ownership import Lease
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.telemetry.metrics import process_meters

COUNT_SECONDS = 10.0


class PartitionNews:
    """slackwater.runtime.partition_sharding.Holder: nothing is kept per partition, planning only begins anew."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    async def acquire(self, leases: Sequence[Lease]) -> None:
        self._changed()

    async def release(self, leases: Sequence[Lease]) -> None:
        self._changed()

    def drop(self, partitions: Collection[int]) -> None:
        self._changed()


class KubernetesService(ReplicatedService):
    """Reads the cluster, and writes offers to the status of its nodes."""

    def __init__(
        self,
        settings: KubernetesSettings,
        platform: Platform,
        server: ApiServer,
        connect: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        replica = Replica("kubernetes", platform)
        clock, meter, changed = replica.clock, KubernetesMetrics(process_meters()), asyncio.Event()
        self.inventory = inventory = Inventory(on_nodes=changed.set)
        self.offers = offers = OffersRead(clock, changed.set)
        decisions = OutboxDecisions(replica.database, replica.name)
        followers: list[KindFollower[Any]] = [
            KindFollower(server, kind, inventory, clock, meter, settings.pace()) for kind in KINDS
        ]
        self.status = status = WriteStatus(
            server,
            inventory,
            offers,
            decisions,
            clock,
            meter,
            settings.policy(),
            replica.partitions.working,
            changed,
            settings.refused_seconds,
        )

        async def count() -> None:
            meter.objects(inventory.counts())

        super().__init__(
            replica,
            load=[connect],
            state=PartitionNews(changed.set),
            consumers=(),
            loops={
                **{follower.kind.plural: follower for follower in followers},
                "offers": OfferWatch(replica.bus, offers),
                "status": status,
                "counts": Repeat(work=count, clock=clock, seconds=COUNT_SECONDS, missed="objects are not counted"),
            },
            checks=lambda: [inventory_check(inventory, followers), status_check(status.refusals)],
            close=close,
        )


def build(settings: KubernetesSettings, platform: Platform) -> KubernetesService:
    """Kubernetes with the cluster that the settings name. It connects when the service starts."""
    server = HttpApiServer(settings.kubeconfig, settings.context)
    return KubernetesService(settings, platform, server, server.connect, server.close)
