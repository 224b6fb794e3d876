"""The composition root of kubernetes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.kind_follower import KindFollower, ServerVersions
from slackwater.apiserver.port import ApiServer
from slackwater.apiserver.records import KINDS, WatchedKind
from slackwater.bus.port import Bus
from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.kubernetes.adapters.certificate_pairs import AuthorityPairs
from slackwater.kubernetes.adapters.decision_outbox import OutboxDecisions
from slackwater.kubernetes.adapters.document_rows import KeyedDocumentLedger
from slackwater.kubernetes.adapters.eviction_rows import KeyedEvictionStore
from slackwater.kubernetes.adapters.http_api_server import HttpApiServer
from slackwater.kubernetes.adapters.http_documents import HttpDocuments
from slackwater.kubernetes.edge.bus_watch import BusWatch
from slackwater.kubernetes.edge.checks import (
    PolicyOfProfiles,
    clock_check,
    documents_check,
    inventory_check,
    refused_check,
    rights_check,
)
from slackwater.kubernetes.edge.webhook import Webhook
from slackwater.kubernetes.metrics import (
    AdmissionMetrics,
    CordonMetrics,
    DocumentMetrics,
    EventMetrics,
    EvictionMetrics,
    KubernetesMetrics,
)
from slackwater.kubernetes.ports import DocumentApi
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.apply_profiles import ApplyProfiles
from slackwater.kubernetes.usecases.carry_out_evictions import CarryOutEvictions
from slackwater.kubernetes.usecases.choose_admission import ChooseAdmission, ProfileMode
from slackwater.kubernetes.usecases.follow_documents import FollowDocuments
from slackwater.kubernetes.usecases.intents_read import IntentsRead
from slackwater.kubernetes.usecases.keep_certificate import KeepCertificate
from slackwater.kubernetes.usecases.offers_read import OffersRead
from slackwater.kubernetes.usecases.publish_budgets import PublishBudgets
from slackwater.kubernetes.usecases.report_events import EVENT_SECONDS, ReportEvents
from slackwater.kubernetes.usecases.resources_read import DOCUMENT_KINDS, LIMITING_KINDS, POLICY_KINDS, ResourcesRead
from slackwater.kubernetes.usecases.review_pods import ReviewPods
from slackwater.kubernetes.usecases.withdraw_profiles import WithdrawProfiles
from slackwater.kubernetes.usecases.write_cordons import WriteCordons
from slackwater.kubernetes.usecases.write_status import WriteStatus
from slackwater.model.time import Clock
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE
from slackwater.runtime.loops import Repeat
from slackwater.runtime.ownership import Lease
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Loop, Replica, ReplicatedService
from slackwater.runtime.service import Check
from slackwater.telemetry.metrics import process_meters

BUDGET_SECONDS = 1.0
COUNT_SECONDS = 10.0


class EvictionPartitions:
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


class EnsuranceParts:
    """What carries out decisions of ensurance: evictions and cordons."""

    def __init__(
        self,
        settings: KubernetesSettings,
        replica: Replica,
        server: ApiServer,
        inventory: Inventory,
        evicting: asyncio.Event,
        cordoning: asyncio.Event,
        events: ReportEvents,
    ) -> None:
        clock, owned, meters = replica.clock, replica.partitions.working, process_meters()
        store = KeyedEvictionStore(replica.database, replica.quarantine)
        self.intents = IntentsRead(evicting.set)
        self.evictions = CarryOutEvictions(
            server,
            inventory,
            self.intents,
            store,
            clock,
            EvictionMetrics(meters),
            settings.evictions,
            owned,
            evicting,
            events.report,
        )
        self.cordons = WriteCordons(
            server, inventory, clock, CordonMetrics(meters), settings.cordons, owned, cordoning, events.report
        )
        reporting = Repeat(work=events, clock=clock, seconds=EVENT_SECONDS, missed="events are not written")
        self.loops: Mapping[str, Loop] = {"cordons": self.cordons, "evictions": self.evictions, "events": reporting}


class AdmissionParts:
    """What changes new pods by profiles: the API server's policy, or the webhook."""

    def __init__(
        self,
        settings: KubernetesSettings,
        replica: Replica,
        server: ApiServer,
        inventory: Inventory,
        resources: ResourcesRead,
        changed: asyncio.Event,
        on_refusal: Callable[[], None],
    ) -> None:
        clock, owned, meter = replica.clock, replica.partitions.working, AdmissionMetrics(process_meters())
        address, excluded = settings.address(), settings.excluded()
        self.choice = ChooseAdmission(server, settings.profiles, clock, changed.set)
        self.profiles = profiles = ApplyProfiles(
            server,
            inventory,
            resources,
            clock,
            owned,
            changed,
            on_refusal,
            self.choice,
            address,
            excluded,
            lambda: self.certificate.bundle,
        )
        self.review = ReviewPods(inventory, profiles.profiles, clock, meter, excluded, resources.limited_namespaces)
        self.webhook = Webhook(settings, self.review, clock)
        self.certificate = KeepCertificate(
            server,
            self.choice,
            AuthorityPairs(),
            self.webhook,
            clock,
            meter,
            owned,
            address,
            settings.certificates(),
            changed.set,
            profiles.trusted_since,
        )
        self.loops: Mapping[str, Loop] = {
            "profiles": profiles,
            "admission": self.choice,
            "certificate": self.certificate,
            "webhook": self.webhook,
        }

    def follower(self, reader: KindFollower[Any]) -> Loop:
        """The loop that follows a kind: policies only where they are served."""
        if reader.kind not in POLICY_KINDS:
            return reader

        async def follow() -> None:
            await self.choice.wait_for_policies()
            await reader()

        return follow

    def check(self) -> Check:
        """Without its certificate a replica gets no reviews: it is not ready."""
        serves = self.choice.chosen is ProfileMode.WEBHOOK
        return Check(
            "kubernetes-webhook",
            not (serves and self.certificate.problem),
            self.certificate.problem if serves else "",
        )


class ResourceParts:
    """What reads custom resources and admission policies, and the loops that follow them."""

    def __init__(
        self,
        settings: KubernetesSettings,
        replica: Replica,
        server: ApiServer,
        inventory: Inventory,
        meter: KubernetesMetrics,
        documents: DocumentApi | None,
        versions: ServerVersions,
    ) -> None:
        clock, owned = replica.clock, replica.partitions.working
        self._following, self._applying = asyncio.Event(), asyncio.Event()
        self.resources = ResourcesRead(self.notify)
        self._applies = applies = settings.profiles is not ProfileMode.OFF
        self.admission = admission = AdmissionParts(
            settings, replica, server, inventory, self.resources, self._applying, self._following.set
        )
        withdrawal = WithdrawProfiles(server, clock, owned)
        self.profiles: PolicyOfProfiles = admission.profiles if applies else withdrawal
        watched = watched_kinds(documents=documents is not None, profiles=applies)
        self.readers: list[KindFollower[Any]] = [
            KindFollower(server, kind, self.resources, clock, meter, settings.pace(), versions=versions)
            for kind in watched
        ]
        self.refusals: Mapping[str, str] = {}
        self.unwritten: Mapping[str, str] = {}
        self.loops: dict[str, Loop] = {reader.kind.plural: admission.follower(reader) for reader in self.readers}
        self.loops |= admission.loops if applies else {"withdrawal": withdrawal}
        counts = DocumentMetrics(process_meters())  # also where nothing is followed: the page of metrics is of the code
        if documents is not None:
            following = self.loops["documents"] = FollowDocuments(
                server,
                self.resources,
                documents,
                KeyedDocumentLedger(replica.unfenced, replica.quarantine),
                clock,
                counts,
                owned,
                self._following,
                admission.profiles.hinders,
                admission.profiles.note if applies else lambda _: "",
            )
            self.refusals, self.unwritten = following.refusals, following.unwritten

    def report_to(self, events: ReportEvents, status: WriteStatus, cordons: WriteCordons) -> None:
        """Let refused writes to nodes, refused documents and profiles be reported."""
        events.sources = {"offer": lambda: status.refusals, "cordon": lambda: cordons.refusals}
        events.documents = lambda: self.refusals
        if self._applies:
            events.profiles, events.note = self.admission.profiles.hinders, self.admission.profiles.note

    def notify(self) -> None:
        """Resources or partitions have changed."""
        self._following.set()
        self._applying.set()


class KubernetesService(ReplicatedService):
    """Reads the cluster, writes offers to the status of its nodes, and evicts pods."""

    def __init__(
        self,
        settings: KubernetesSettings,
        platform: Platform,
        server: ApiServer,
        connect: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
        documents: DocumentApi | None = None,
    ) -> None:
        """With `documents` the cluster's custom resources become the documents of the services."""
        replica = Replica("kubernetes", platform)
        clock, meter, versions = replica.clock, KubernetesMetrics(process_meters()), ServerVersions()
        changed, evicting, cordoning = asyncio.Event(), asyncio.Event(), asyncio.Event()

        def nodes_changed() -> None:
            changed.set()
            cordoning.set()

        self.inventory = inventory = Inventory(on_nodes=nodes_changed, on_pods=evicting.set)
        self.offers = offers = OffersRead(clock, changed.set)
        followers: list[KindFollower[Any]] = [
            KindFollower(server, kind, inventory, clock, meter, settings.pace(), versions=versions) for kind in KINDS
        ]
        self.status = status = WriteStatus(
            server,
            inventory,
            offers,
            OutboxDecisions(replica.database, replica.name),
            clock,
            meter,
            settings.policy(),
            replica.partitions.working,
            changed,
            settings.refused_seconds,
        )
        self.parts = parts = ResourceParts(settings, replica, server, inventory, meter, documents, versions)
        self.events = events = event_reporter(settings, replica, server, inventory, parts.resources)
        ensured = EnsuranceParts(settings, replica, server, inventory, evicting, cordoning, events)
        self.evictions, self.cordons = evictions, cordons = ensured.evictions, ensured.cordons
        parts.report_to(events, status, cordons)

        def partitions_changed() -> None:
            nodes_changed()
            parts.notify()

        super().__init__(
            replica,
            load=[connect],
            state=EvictionPartitions(evictions, partitions_changed),
            consumers=(),
            loops={
                **{follower.kind.plural: follower for follower in followers},
                **parts.loops,
                **bus_watches(replica.bus, offers, ensured.intents, cordons),
                "status": status,
                **ensured.loops,
                **budget_loops(replica, inventory),
                "counts": counts(meter, inventory, server, clock),
            },
            checks=lambda: [
                inventory_check(inventory, followers),
                rights_check(server.missing_rights),
                clock_check(server.clock_skew_seconds),
                refused_check("kubernetes-status", status.refusals),
                refused_check("kubernetes-cordons", cordons.refusals),
                documents_check(parts.readers, parts.refusals, parts.unwritten, parts.profiles),
                parts.admission.check(),
            ],
            close=close,
        )

    @property
    def drain_seconds(self) -> float:
        """slackwater.runtime.service.Draining."""
        return self.parts.admission.webhook.drain_seconds


def event_reporter(
    settings: KubernetesSettings, replica: Replica, server: ApiServer, inventory: Inventory, resources: ResourcesRead
) -> ReportEvents:
    """What writes Kubernetes Events, in the name of this pod."""
    meter, owned = EventMetrics(process_meters()), replica.partitions.working
    return ReportEvents(
        server, inventory, resources, replica.clock, meter, owned, socket.gethostname(), enabled=settings.events
    )


def counts(meter: KubernetesMetrics, inventory: Inventory, server: ApiServer, clock: Clock) -> Loop:
    """Sets the gauges every few seconds."""

    async def count() -> None:
        meter.objects(inventory.counts())
        await server.review_rights()
        meter.rights(server.missing_rights)
        meter.clock_skew(server.clock_skew_seconds)

    return Repeat(work=count, clock=clock, seconds=COUNT_SECONDS, missed="objects are not counted")


def build(settings: KubernetesSettings, platform: Platform) -> KubernetesService:
    """Kubernetes with the cluster that the settings name. It connects when the service starts."""
    server, documents = HttpApiServer(settings.kubeconfig, settings.context, platform.clock), None
    if settings.documents_url:
        documents = HttpDocuments(settings.documents_url, settings.documents_token_file)

    async def close() -> None:
        await server.close()
        if documents is not None:
            await documents.close()

    return KubernetesService(settings, platform, server, server.connect, close, documents)


def budget_loops(replica: Replica, inventory: Inventory) -> dict[str, Loop]:
    """What publishes disruption budgets: the last values that were published, and the comparison with the copy."""
    clock = replica.clock
    budgets = PublishBudgets(inventory, replica.partitions.working, replica.bus.publish, clock)
    missed = "moves see older disruption budgets"
    return {
        "published budgets": BusWatch(
            replica.bus, DisruptionBudgetChanged, budgets.receive, caught_up=budgets.caught_up
        ),
        "budgets": Repeat(work=budgets, clock=clock, seconds=BUDGET_SECONDS, missed=missed),
    }


def bus_watches(bus: Bus, offers: OffersRead, intents: IntentsRead, cordons: WriteCordons) -> dict[str, Loop]:
    """What is read from the bus: the last value of each key counts."""
    return {
        "offers": BusWatch(bus, ResourcesOffered, offers.receive, offers.begin),
        "intents": BusWatch(bus, IntentDeclared, intents.declare),
        "descriptions": BusWatch(bus, NodeDescribed, intents.describe),
        "scheduling": BusWatch(bus, NodeSchedulingChanged, cordons.receive),
    }


def watched_kinds(*, documents: bool, profiles: bool) -> Sequence[WatchedKind[Any]]:
    """The kinds that are read beside those of the inventory."""
    every = [
        watched
        for kind, watched in DOCUMENT_KINDS.values()
        if documents or (profiles and kind is CLUSTER_COLOCATION_PROFILE)
    ]
    return (*every, *((*POLICY_KINDS, *LIMITING_KINDS) if profiles else ()))
