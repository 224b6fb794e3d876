"""Evicts pods: SIGTERM, grace period, SIGKILL; once per id, with exactly one completion per id whatever happens.

The ledger is written before the first signal and before the completion is published, so a restarted agent finishes
what it began and never begins again. Before the signal it is not synced: pods do not outlive their kernel, and a slow
disk would take the seconds in which a machine runs out of memory. The completion's event id follows from the eviction
id: published twice, stored once. While the ledger cannot be written, no eviction begins; those under way end and are
published.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from slackwater.agent.domain.evictions import EvictionRequest, Verdict, judge
from slackwater.agent.domain.ledger import SIGNALLED, EvictionRecord
from slackwater.agent.domain.protected_pods import protection_reason
from slackwater.agent.ports import Completion, Driver, EvictionLedger
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome, completion_id
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.spans import Attributes, Span, new_traceparent, span

_log = get_logger(__name__)
_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0
_HOUR = timedelta(hours=1)


@dataclass(slots=True)
class EvictPods:
    """`spawn` runs an eviction beside everything else; `announce` hands a completion to the outgoing queue. Unless
    `begins`, the API server evicts the pods of this node: a signal to its processes would only make the kubelet start
    them again. What a former run of this agent began is finished all the same."""

    node: str
    driver: Driver
    ledger: EvictionLedger
    clock: Clock
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    announce: Callable[[Completion], None]
    begins: bool = True
    _records: dict[str, EvictionRecord] = field(default_factory=dict)
    _begun_at: list[datetime] = field(default_factory=list)
    _unsaved: bool = False

    def resume(self) -> None:
        """After a start, finish the evictions under way and publish completions that were not published."""
        self._records = self.ledger.load()
        self._begun_at = sorted(record.started_at for record in self._records.values() if record.outcome in SIGNALLED)
        for record in self._records.values():
            if record.outcome is None:
                self._begin(record)
            elif not record.published:
                self.announce(_completion(self.node, record))

    def consider(self, requests: Sequence[EvictionRequest], lease_alive: Mapping[str, bool]) -> bool:
        """Begin evictions that may begin; complete at once those that never will. `lease_alive` is by writer. Returns
        whether any began."""
        before = len(self.ending())
        for request in requests if self.begins else ():
            if request.id in self._records or self._is_ending(request.pod_uid):
                continue
            now = self.clock.now()
            living = {pod.uid: pod for pod in self.driver.pods()}
            pod = living.get(request.pod_uid)
            protected = None if pod is None else protection_reason(pod) or self.driver.protected(pod.uid)
            alive = lease_alive.get(request.writer, False)
            lives = pod is not None or self.driver.alive(request.pod_uid)  # it may have failed and be listed still
            verdict = judge(request, lease_alive=alive, pod_lives=lives, protected=protected, now=now)
            self._follow(verdict, request, now, protected or "")
        return len(self.ending()) > before

    def _is_ending(self, pod_uid: str) -> bool:
        """Whether the pod is being evicted, for any writer. Another writer is answered when that has ended."""
        return any(record.pod_uid == pod_uid and record.outcome is None for record in self._records.values())

    def ending(self) -> Mapping[str, datetime]:
        """The pods that are being evicted, by uid, with the end of their grace period."""
        return {
            record.pod_uid: record.started_at + timedelta(seconds=record.grace_seconds)
            for record in self._records.values()
            if record.outcome is None
        }

    def begun_lately(self) -> tuple[datetime, ...]:
        """When the evictions of the last hour began, of any writer. After a restart, those of the ledger."""
        since = self.clock.now() - _HOUR
        self._begun_at = [at for at in self._begun_at if at > since]
        return tuple(self._begun_at)

    def prune(self, writer: str, asked: set[str]) -> None:
        """Drop ids that can never start again: published, past their deadline and no longer requested."""
        now = self.clock.now()
        gone = [
            record.id
            for record in self._records.values()
            if record.writer == writer and record.published and record.deadline < now and record.id not in asked
        ]
        for id_ in gone:
            del self._records[id_]
        if gone:
            self._save()

    def published(self, id_: str) -> None:
        """The bus has stored this completion."""
        record = self._records.get(id_)
        if record is not None and not record.published:
            self._store(replace(record, published=True))

    def _follow(self, verdict: Verdict, request: EvictionRequest, now: datetime, protected: str) -> None:
        if verdict is Verdict.WAIT:
            return
        record = EvictionRecord(
            id=request.id,
            pod_uid=request.pod_uid,
            writer=request.writer,
            decision_id=request.decision_id,
            deadline=request.deadline,
            grace_seconds=request.grace_seconds,
            started_at=now,
            cause=request.cause,
            traceparent=request.traceparent,
        )
        match verdict:
            case Verdict.START:
                if not self._store(record, sync=False):
                    del self._records[request.id]  # the next sample considers it again
                    return
                self._begin(record)
                self._begun_at = [*self.begun_lately(), now]
                _log.info(
                    "eviction begins",
                    node=self.node,
                    decision_id=request.decision_id,
                    pod=request.pod_uid,
                    writer=request.writer,
                    reason=request.reason,
                )
            case Verdict.EXPIRED:
                self._settle(record, EvictionOutcome.EXPIRED, "the deadline had passed before it could begin")
            case Verdict.ALREADY_GONE:
                self._settle(record, EvictionOutcome.ALREADY_GONE, "no such pod on this node")
            case Verdict.REFUSED:
                self._settle(record, EvictionOutcome.REFUSED, protected)

    def _settle(self, record: EvictionRecord, outcome: EvictionOutcome, detail: str) -> None:
        """Complete it without a signal to any process."""
        with self._step(record) as step:
            self._complete(record, outcome, detail, step)

    def _begin(self, record: EvictionRecord) -> None:
        """Send SIGTERM at once, not with the next turn of the loop, and follow the pod to its end."""
        self.driver.terminate(record.pod_uid, signal.SIGTERM)
        self.spawn(self._run(record))

    async def _run(self, record: EvictionRecord) -> None:
        with self._step(record) as step:
            outcome, detail = await self._end(record)
            if outcome is EvictionOutcome.FAILED:
                step.failed(detail)
            self._complete(record, outcome, detail, step)

    async def _end(self, record: EvictionRecord) -> tuple[EvictionOutcome, str]:
        spent = max(0.0, (self.clock.now() - record.started_at).total_seconds())  # the clock may have been set back
        if await self._gone(record.pod_uid, max(0.0, record.grace_seconds - spent)):
            return EvictionOutcome.TERMINATED, "ended within its grace"
        self.driver.terminate(record.pod_uid, signal.SIGKILL)
        if await self._gone(record.pod_uid, _KILL_SECONDS, again=signal.SIGKILL):
            return EvictionOutcome.KILLED, f"outlived {record.grace_seconds:g} s of grace"
        return EvictionOutcome.FAILED, f"still runs {_KILL_SECONDS:g} s after SIGKILL"

    def _step(self, record: EvictionRecord) -> AbstractContextManager[Span]:
        """A span from the request to the end of the pod; after a restart a new one under the same request."""
        attributes: Attributes = {"node": self.node, "decision_id": record.decision_id, "eviction_id": record.id}
        parent = record.traceparent or new_traceparent(sampled=False)
        return span("agent evict", parent, attributes, started_at=record.started_at)

    async def _gone(self, pod_uid: str, within_seconds: float, again: int | None = None) -> bool:
        deadline = self.clock.monotonic() + within_seconds
        while self.driver.alive(pod_uid):
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return False
            await self.clock.sleep(min(_POLL_SECONDS, left))
            if again is not None:
                self.driver.terminate(pod_uid, again)
        return True

    def _complete(self, record: EvictionRecord, outcome: EvictionOutcome, detail: str, step: Span) -> None:
        step.note({"outcome": outcome.value})
        done = replace(
            record,
            outcome=outcome.value,
            detail=detail,
            completed_at=self.clock.now(),
            traceparent=step.traceparent,
        )
        self._store(done)
        self.announce(_completion(self.node, done))

    def _store(self, record: EvictionRecord, *, sync: bool = True) -> bool:
        """Add or replace a record; whether it is written."""
        self._records[record.id] = record
        return self._save(sync=sync)

    def _save(self, *, sync: bool = True) -> bool:
        try:
            self.ledger.save(self._records, sync=sync)
        except Unavailable as error:
            if not self._unsaved:
                _log.error("ledger not written", node=self.node, error=error.message)
            self._unsaved = True
            return False
        self._unsaved = False
        return True


def eviction_requests(event: Event[IntentDeclared]) -> list[EvictionRequest]:
    """The evictions of one document as the domain sees them."""
    document = event.data
    return [
        EvictionRequest(
            item.id, item.pod_uid, document.writer, item.grace_seconds, item.deadline, item.decision_id, item.reason,
            event.id, event.traceparent,
        )
        for item in document.evictions
    ]  # fmt: skip


def _completion(node: str, record: EvictionRecord) -> Completion:
    payload = EvictionCompleted(
        id=record.id,
        node=node,
        pod_uid=record.pod_uid,
        writer=record.writer,
        outcome=EvictionOutcome(record.outcome or EvictionOutcome.FAILED),
        detail=record.detail,
        completed_at=record.completed_at or record.started_at,
        decision_id=record.decision_id,
    )
    return Completion(payload, completion_id(node, record.id, record.cause), record.cause, record.traceparent)
