"""Writes Kubernetes Events about what this service does and what is refused.

Events are for people at `kubectl describe`: one that cannot be written is counted, and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from slackwater.apiserver.cluster_events import ClusterEvent, EventSubject, node_subject
from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.port import ApiServer
from slackwater.kubernetes.domain.event_book import EventBook, changed_refusals
from slackwater.kubernetes.metrics import EventMetrics
from slackwater.kubernetes.usecases.follow_documents import PARTITION
from slackwater.kubernetes.usecases.resources_read import DOCUMENT_KINDS, ResourcesRead
from slackwater.model.errors import NotFound, SlackwaterError
from slackwater.model.time import Clock
from slackwater.resources.names import API_VERSION
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

EVENT_SECONDS: Final = 1.0
PROFILES: Final = "clustercolocationprofiles"
Refusals = Callable[[], Mapping[str, str]]


class ReportEvents:
    """`nodes` are the refused writes by what they are of (`offer`, `cordon`), each by node; `documents` the refused
    documents by `PLURAL/NAME`. `profiles` says why a profile is not in force, `note` what it does otherwise than it
    says.
    """

    def __init__(
        self,
        server: ApiServer,
        inventory: Inventory,
        resources: ResourcesRead,
        clock: Clock,
        meter: EventMetrics,
        owned: Callable[[], Collection[int]],
        instance: str,
        *,
        enabled: bool,
    ) -> None:
        self._server = server
        self._inventory = inventory
        self._resources = resources
        self._clock = clock
        self._meter = meter
        self._owned = owned
        self._instance = instance
        self._enabled = enabled
        self._book = EventBook()
        self._refused: dict[str, dict[str, str]] = {}
        self._profiles: dict[str, tuple[int, str, str]] | None = None
        self.sources: dict[str, Refusals] = {}
        """Refused writes to nodes by what they are of, each by node."""
        self.documents: Refusals = dict
        self.profiles: Callable[[str], str] = lambda _: ""
        self.note: Callable[[str], str] = lambda _: ""

    def report(self, event: ClusterEvent) -> None:
        """Note an event; it is written within EVENT_SECONDS, if the pace allows it."""
        if self._enabled:
            self._book.note(event, self._clock.now())

    async def __call__(self) -> None:
        """Write what is due. Raises nothing that an API server may answer."""
        if not self._enabled:
            return
        for event in (*self._of_nodes(), *self._of_documents(), *self._of_profiles()):
            self.report(event)
        now = self._clock.now()
        for booked in self._book.due(now):
            try:
                await self._server.write_event(booked.series, self._instance, is_new=not booked.written)
                self._meter.event("written" if not booked.written else "counted")
            except NotFound:  # the namespace ends, or the event has expired
                self._meter.event("refused")
            except SlackwaterError as error:
                self._meter.event("refused")
                log.warning("event not written", reason=booked.series.event.reason, error=error.message)
            self._book.settled(booked, now)
        if self._book.dropped:
            self._meter.event("dropped", self._book.dropped)
            self._book.dropped = 0

    def _of_nodes(self) -> Iterable[ClusterEvent]:
        for what, refusals in self.sources.items():
            yield from self._news(what, dict(refusals()), partial(self._node_event, what))

    def _of_documents(self) -> Iterable[ClusterEvent]:
        return self._news("documents", dict(self.documents()), self._document_event)

    def _news(
        self, source: str, now: dict[str, str], event_of: Callable[[str, str], ClusterEvent | None]
    ) -> Sequence[ClusterEvent]:
        before, self._refused[source] = self._refused.get(source, {}), now
        return changed_refusals(before, now, event_of)

    def _of_profiles(self) -> Iterable[ClusterEvent]:
        """Of each profile that is new in force, changed, or no longer. What is in force at the start is no news."""
        if PARTITION not in self._owned() or not self._resources.is_synced(PROFILES):
            self._profiles = None
            return
        present = {
            name: (item.generation, self.profiles(f"{PROFILES}/{name}"), self.note(f"{PROFILES}/{name}"))
            for name, item in self._resources.items(PROFILES).items()
        }
        before, self._profiles = self._profiles, present
        for name, (generation, why, note) in present.items():
            text = why or note
            if (generation, why, note) == (before or {}).get(name) or (before is None and not text):
                continue
            reason = "NotInForce" if why else "InForceInPart" if text else "InForce"
            subject = self._document_subject(PROFILES, name)
            said = text or "new pods that it selects are changed by it"
            yield ClusterEvent(subject, reason, "ApplyProfile", said, is_warning=bool(text))

    def _node_event(self, what: str, node: str, why: str) -> ClusterEvent | None:
        known = self._inventory.nodes.get(node)
        if known is None:
            return None
        return ClusterEvent(
            node_subject(node, known.uid),
            f"{what.capitalize()}Refused",
            f"Write{what.capitalize()}",
            why,
            is_warning=True,
        )

    def _document_event(self, key: str, why: str) -> ClusterEvent | None:
        plural, _, name = key.partition("/")
        return ClusterEvent(self._document_subject(plural, name), "Refused", "Follow", why, is_warning=True)

    def _document_subject(self, plural: str, name: str) -> EventSubject:
        item = self._resources.items(plural).get(name)
        kind, _ = DOCUMENT_KINDS[plural]
        return EventSubject(API_VERSION, kind.name, "", name, "" if item is None else item.uid)
