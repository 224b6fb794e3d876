"""The composition root of kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.kind_follower import KindFollower
from slackwater.apiserver.port import ApiServer
from slackwater.apiserver.records import KINDS
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.kubernetes.adapters.decision_outbox import OutboxDecisions
from slackwater.kubernetes.adapters.eviction_rows import KeyedEvictionStore
from slackwater.kubernetes.adapters.http_api_server import HttpApiServer
from slackwater.kubernetes.adapters.metrics import CordonMetrics, EvictionMetrics, KubernetesMetrics
from slackwater.kubernetes.edge.bus_watch import BusWatch
from slackwater.kubernetes.edge.checks import inventory_check, refused_check
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.carry_out_evictions import CarryOutEvictions
from slackwater.kubernetes.usecases.intents_read import IntentsRead
from slackwater.kubernetes.usecases.offers_read import OffersRead
from slackwater.kubernetes.usecases.write_cordons import WriteCordons
from slackwater.kubernetes.usecases.write_status import WriteStatus
from slackwater.runtime.loops import Repeat
from slackwater.runtime.ownership import Lease
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.telemetry.metrics import process_meters

COUNT_SECONDS = 10.0


class PartitionState:
    """slackwater.runtime.partition_sharding.Holder: evictions are kept per partition, everything else is planned
    anew."""

    def __init__(self, evictions: CarryOutEvictions, changed: Callable[[], None]) -> None:
        self._evictions = evictions
        self._changed = changed

    async def acquire(self, leases: Sequence[Lease]) -> None:
        await self._evictions.acquire(leases)
        self._changed()

    async def release(self, leases: Sequence[Lease]) -> None:
        self.drop([lease.partition for lease in leases])

    def drop(self, partitions: Collection[int]) -> None:
        self._evictions.drop(partitions)
        self._changed()


class KubernetesService(ReplicatedService):
    """Reads the cluster, writes offers to the status of its nodes, and evicts pods."""

    def __init__(
        self,
        settings: KubernetesSettings,
        platform: Platform,
        server: ApiServer,
        connect: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        replica = Replica("kubernetes", platform)
        clock, meter = replica.clock, KubernetesMetrics(process_meters())
        changed, evicting, cordoning = asyncio.Event(), asyncio.Event(), asyncio.Event()

        def nodes_changed() -> None:
            changed.set()
            cordoning.set()

        self.inventory = inventory = Inventory(on_nodes=nodes_changed, on_pods=evicting.set)
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
        self.intents = intents = IntentsRead(evicting.set)
        self.evictions = evictions = CarryOutEvictions(
            server,
            inventory,
            intents,
            KeyedEvictionStore(replica.database, replica.quarantine),
            clock,
            EvictionMetrics(process_meters()),
            settings.evictions,
            replica.partitions.working,
            evicting,
        )
        self.cordons = cordons = WriteCordons(
            server,
            inventory,
            clock,
            CordonMetrics(process_meters()),
            settings.cordons,
            replica.partitions.working,
            cordoning,
        )

        async def count() -> None:
            meter.objects(inventory.counts())

        super().__init__(
            replica,
            load=[connect],
            state=PartitionState(evictions, nodes_changed),
            consumers=(),
            loops={
                **{follower.kind.plural: follower for follower in followers},
                "offers": BusWatch(replica.bus, ResourcesOffered, offers.receive, offers.begin),
                "intents": BusWatch(replica.bus, IntentDeclared, intents.declare),
                "descriptions": BusWatch(replica.bus, NodeDescribed, intents.describe),
                "scheduling": BusWatch(replica.bus, NodeSchedulingChanged, cordons.receive),
                "status": status,
                "cordons": cordons,
                "evictions": evictions,
                "counts": Repeat(work=count, clock=clock, seconds=COUNT_SECONDS, missed="objects are not counted"),
            },
            checks=lambda: [
                inventory_check(inventory, followers),
                refused_check("kubernetes-status", status.refusals),
                refused_check("kubernetes-cordons", cordons.refusals),
            ],
            close=close,
        )


def build(settings: KubernetesSettings, platform: Platform) -> KubernetesService:
    """Kubernetes with the cluster that the settings name. It connects when the service starts."""
    server = HttpApiServer(settings.kubeconfig, settings.context)
    return KubernetesService(settings, platform, server, server.connect, server.close)
