"""Starts pods of workloads that the machine's operator has described: once per id, with one end per id.

The record is on disk before the process is launched. A process that was launched and is not seen as a pod in time is
not there (it gives up by itself before that), so that a restarted agent never launches a second one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slackwater.agent.domain.starts import (
    LAUNCH_SECONDS,
    UNSEEN_SECONDS,
    StartRecord,
    StartRefusal,
    StartRequest,
    judge_start,
)
from slackwater.agent.domain.workload_template import WorkloadTemplate
from slackwater.agent.ports import Driver, Launcher, StartLedger
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import ObservedStart
from slackwater.model.errors import SlackwaterError, Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.start_states import StartState
from slackwater.model.time import Clock
from slackwater.model.workload_labels import START_LABEL
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class StartWorkloads:
    """`changed` is called with the writer whose answer differs from the last one."""

    node: str
    driver: Driver
    launcher: Launcher
    ledger: StartLedger
    clock: Clock
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    changed: Callable[[str], None]
    _records: dict[str, StartRecord] = field(default_factory=dict)

    def resume(self) -> None:
        """After a start of the agent, follow the starts under way."""
        self._records = self.ledger.load()
        for record in self._records.values():
            if record.state is StartState.STARTING:
                self.spawn(self._follow(record, self.launcher.templates().get(record.workload)))

    def consider(self, requests: Sequence[StartRequest], lease_alive: Mapping[str, bool]) -> None:
        """Begin starts that may begin; answer at once those that never will. `lease_alive` is by writer."""
        new = [request for request in requests if request.id not in self._records]
        if not new:
            return
        templates, now = self.launcher.templates(), self.clock.now()
        for request in new:
            alive = lease_alive.get(request.writer, False)
            verdict = judge_start(request, templates.get(request.workload), lease_alive=alive, now=now)
            if isinstance(verdict, StartRefusal):
                self._store(self._record(request, "", verdict.state, verdict.detail))
            elif verdict is not None:
                self._begin(request, verdict)

    def states(self, document: IntentDeclared) -> tuple[ObservedStart, ...]:
        """The starts of a document that are decided."""
        return tuple(_observed(self._records[start.id]) for start in document.starts if start.id in self._records)

    def prune(self, writer: str, asked: set[str]) -> None:
        """Drop ids that can never begin again: ended, past their deadline and no longer requested."""
        now = self.clock.now()
        gone = [
            record.id
            for record in self._records.values()
            if record.writer == writer
            and record.state is not StartState.STARTING
            and record.deadline < now
            and record.id not in asked
        ]
        for id_ in gone:
            del self._records[id_]
        if gone:
            self._save()

    def _record(self, request: StartRequest, uid: str, state: StartState, detail: str = "") -> StartRecord:
        return StartRecord(
            id=request.id,
            writer=request.writer,
            workload=request.workload,
            pod_uid=uid,
            deadline=request.deadline,
            decision_id=request.decision_id,
            state=state,
            started_at=self.clock.now(),
            detail=detail,
        )

    def _begin(self, request: StartRequest, template: WorkloadTemplate) -> None:
        record = self._record(request, new_id(), StartState.STARTING)
        self._records[record.id] = record
        if not self._save():
            del self._records[record.id]  # the next sample considers it again
            return
        _log.info("start begins", node=self.node, workload=template.name, pod=record.pod_uid, start=record.id)
        try:
            self.launcher.launch(template, record.pod_uid, {START_LABEL: record.id}, LAUNCH_SECONDS)
        except SlackwaterError as error:
            self._end(record, StartState.FAILED, error.message)
            return
        self.changed(record.writer)
        self.spawn(self._follow(record, template))

    async def _follow(self, record: StartRecord, template: WorkloadTemplate | None) -> None:
        """Until the pod is ready, has ended, or its time is over."""
        if template is None:
            await self._end_late(record, 0.0, f"the file {record.workload}.yaml is gone, so that nothing says when")
            return
        spent = max(0.0, (self.clock.now() - record.started_at).total_seconds())  # the clock may have been set back
        begun = self.clock.monotonic() - spent
        seen = False
        while (waited := self.clock.monotonic() - begun) < template.ready.within_seconds:
            lives = self.driver.alive(record.pod_uid)
            if not lives and (seen or waited >= UNSEEN_SECONDS):
                self._end(record, StartState.FAILED, self.launcher.why_ended(record.pod_uid))
                return
            seen = seen or lives
            if lives and await self.launcher.is_ready(template):
                self._end(replace(record, ready_at=self.clock.now()), StartState.READY, "")
                return
            await self.clock.sleep(_POLL_SECONDS)
        await self._end_late(record, template.grace_seconds, f"not ready within {template.ready.within_seconds:g} s")

    async def _end_late(self, record: StartRecord, grace_seconds: float, why: str) -> None:
        """End the pod: its writer may start it elsewhere, and there must not be two."""
        self.driver.terminate(record.pod_uid, signal.SIGTERM)
        until = self.clock.monotonic() + grace_seconds
        while self.driver.alive(record.pod_uid):
            if self.clock.monotonic() >= until:
                self.driver.terminate(record.pod_uid, signal.SIGKILL)
            await self.clock.sleep(_POLL_SECONDS)
        self._end(record, StartState.FAILED, why)

    def _end(self, record: StartRecord, state: StartState, detail: str) -> None:
        _log.info("start ended", node=self.node, start=record.id, pod=record.pod_uid, state=state.value, detail=detail)
        self._store(replace(record, state=state, detail=detail))

    def _store(self, record: StartRecord) -> None:
        self._records[record.id] = record
        self._save()
        self.changed(record.writer)

    def _save(self) -> bool:
        try:
            self.ledger.save(self._records)
        except Unavailable as error:
            _log.error("starts not written", node=self.node, error=error.message)
            return False
        return True


def start_requests(event: Event[IntentDeclared]) -> list[StartRequest]:
    """The starts of one document as the domain sees them."""
    document = event.data
    return [
        StartRequest(start.id, start.workload, start.digest, document.writer, start.deadline, start.decision_id)
        for start in document.starts
    ]


def _observed(record: StartRecord) -> ObservedStart:
    """A start as the answer to its writer has it."""
    return ObservedStart(
        id=record.id,
        state=record.state,
        pod_uid=record.pod_uid,
        detail=record.detail,
        started_at=record.started_at if record.pod_uid else None,
        ready_at=record.ready_at,
    )
