"""Handles documents and lease renewals: begin evictions, converge, answer, store for a restart, begin starts.

Evictions come first: everything after them may wait for a slow disk, and the machine may be short of memory."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.agent.domain.stored_reports import StoredReports
from slackwater.agent.ports import IntentFile, Publisher
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.agent.usecases.disconnected_mode import DisconnectedMode
from slackwater.agent.usecases.evict import EvictPods, eviction_requests
from slackwater.agent.usecases.start_workloads import StartWorkloads, start_requests
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import AGENT_WRITER, IntentDeclared
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.spans import Attributes, span

_log = get_logger(__name__)


@dataclass(slots=True)
class HandleIntents:
    """Of one node."""

    node: str
    clock: Clock
    converge: ConvergeToIntents
    evict: EvictPods
    disconnected: DisconnectedMode
    publisher: Publisher
    file: IntentFile
    stored: StoredReports
    start: StartWorkloads | None = None
    """Where this machine has a folder of workloads."""

    async def receive(self, event: Event[IntentDeclared]) -> None:
        """From the bus to the machine and back to the bus, without a pause in between."""
        document = event.data
        attributes: Attributes = {
            "node": self.node,
            "writer": document.writer,
            "generation": document.generation,
            "throttles": len(document.throttles),
            "decision_id": next((throttle.decision_id for throttle in document.throttles), None),
        }
        with span("agent converge", event.traceparent, attributes, kind="consumer") as step:
            if step.real is not None:
                event = event.model_copy(update={"traceparent": step.traceparent})
            self.publisher.observed(self.converge.receive(event, self.consider_evictions))
            self._store(event)
            self.evict.prune(document.writer, {item.id for item in document.evictions})
            if self.start is not None:
                self.start.prune(document.writer, {item.id for item in document.starts})
            self.consider_starts()

    async def renew(self, event: Event[LeaseRenewed]) -> None:
        """Renew the writer's lease if it has read a report of this node lately."""
        renewal, now = event.data, self.clock.monotonic()
        if self.node in renewal.blocked:
            return
        if self.stored.is_read(renewal.read_up_to, renewal.heard_within_seconds, now):
            self.converge.held.renew(renewal.writer, renewal.epoch, now)

    def consider_evictions(self) -> bool:
        """Begin the evictions of all documents, and in disconnected mode those decided here. Returns whether any
        began."""
        now, held = self.clock.monotonic(), self.converge.held.by_writer
        requests = [request for document in held.values() for request in eviction_requests(document.event)]
        alive = {writer: document.desired.alive(now) for writer, document in held.items()}
        if self.disconnected.guard is not None:
            requests += self.disconnected.evictions()
            alive[AGENT_WRITER] = True
        return bool(requests) and self.evict.consider(requests, alive)

    def consider_starts(self) -> None:
        """Begin the starts of all documents."""
        now, held = self.clock.monotonic(), self.converge.held.by_writer
        requests = [request for document in held.values() for request in start_requests(document.event)]
        if requests and self.start is not None:
            self.start.consider(requests, {writer: document.desired.alive(now) for writer, document in held.items()})

    def answer(self, writer: str) -> None:
        """Answer the writer's document again: a start of it has gone on."""
        self.publisher.observed(self.converge.answer(writer))

    def _store(self, event: Event[IntentDeclared]) -> None:
        """Store the documents for a restart while disconnected. One that was ignored is not stored."""
        held = self.converge.held.by_writer
        if event.data.writer in held and held[event.data.writer].event is event:
            try:
                self.file.save([document.event for document in held.values()])
            except Unavailable as error:  # the older file counts only where no writer is heard
                _log.warning("intents not kept", error=error.message)
