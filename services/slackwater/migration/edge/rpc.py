"""gRPC for platforms: the same use case as the REST routes, and a stream of jobs. It imports grpc, so only serving
processes import it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp

from slackwater.migration.domain.job_versions import changed_since, first_version, have_ended, newest_version
from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.migration.usecases.job_board import JobBoard
from slackwater.migration.usecases.job_documents import AskedJob
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.podmigration.documents import PodMigrationJob
from slackwater.resources.change import ChangeResources
from slackwater.runtime.resource_routes import refuse_foreign_change
from slackwater.runtime.roles import Role
from slackwater.runtime.rpc_guard import Exhausted
from slackwater.runtime.service import RpcPart
from slackwater.runtime.settings import ResourceSettings
from slackwater.v1 import migration_service_pb2 as messages
from slackwater.v1 import migration_service_pb2_grpc as stubs

NAME: Final = "slackwater.v1.MigrationService"
ROLES: Final = {"Submit": Role.OPERATOR, "Watch": Role.VIEWER}
AUTHOR: Final = "grpc"
MOST_NAMES: Final = 1000
"""Of one watch."""
MOST_WATCHES: Final = 100
"""Open at a time; each looks twice a second."""
LOOK_SECONDS: Final = 0.5
_MODES: Final = {
    messages.MIGRATION_MODE_UNSPECIFIED: "ReservationFirst",
    messages.MIGRATION_MODE_RESERVATION_FIRST: "ReservationFirst",
    messages.MIGRATION_MODE_EVICT_DIRECTLY: "EvictDirectly",
}
Changes = ChangeResources[PodMigrationJob, AskedJob]


def rpc_part(jobs: Changes, board: JobBoard) -> RpcPart:
    """The service, to be registered in the process's server."""

    def add(server: grpc.aio.Server, leaving: asyncio.Event) -> None:
        stubs.add_MigrationServiceServicer_to_server(MigrationRpc(jobs, board, leaving), server)

    return RpcPart(NAME, ROLES, add)


class MigrationRpc(stubs.MigrationServiceServicer):
    """Translates requests, calls a use case, and translates the result. The guard handles errors."""

    def __init__(self, jobs: Changes, board: JobBoard, leaving: asyncio.Event) -> None:
        self._jobs = jobs
        self._board = board
        self._leaving = leaving
        self._source = ResourceSettings().source
        self._watches = 0

    async def Submit(  # noqa: N802 - the contract's name
        self,
        request: messages.SubmitRequest,
        context: grpc.aio.ServicerContext[messages.SubmitRequest, messages.SubmitResponse],
    ) -> messages.SubmitResponse:
        if not request.dry_run:
            refuse_foreign_change(self._jobs.kind, self._source)
        wanted = PodMigrationJob.parse(_document(request))
        change = await self._jobs.put(wanted, by=AUTHOR, dry_run=request.dry_run)
        _, stored = await self._board.now()
        known = stored.get(request.name)
        job = _unseen(request) if known is None else job_message(known)
        return messages.SubmitResponse(job=job, is_new=change.is_new)

    async def Watch(  # noqa: N802 - the contract's name
        self,
        request: messages.MigrationServiceWatchRequest,
        context: grpc.aio.ServicerContext[
            messages.MigrationServiceWatchRequest, messages.MigrationServiceWatchResponse
        ],
    ) -> None:
        names = frozenset(request.names)
        if len(request.names) > MOST_NAMES:
            said = f"names: {len(request.names)} names; allowed: at most {MOST_NAMES}"
            raise InvalidInput(said, field="names")
        if request.resume_version < 0:
            raise InvalidInput(f"resume_version: {request.resume_version} is no version", field="resume_version")
        if self._watches >= MOST_WATCHES:
            raise Exhausted(f"{MOST_WATCHES} watches of jobs are open; follow several jobs with one")
        self._watches += 1
        try:
            async for message in self.changes(names, request.resume_version):
                await context.write(message)
        finally:
            self._watches -= 1

    async def changes(
        self, names: frozenset[str], resume: int
    ) -> AsyncIterator[messages.MigrationServiceWatchResponse]:
        """Yields jobs as they stand after a version, then whenever one changes, until all named ones have ended. Raises
        Unavailable when the process stops."""
        generation, jobs = await self._board.now()
        version = first_version(resume, generation)
        while True:
            for changed in changed_since(jobs, version, names):
                yield messages.MigrationServiceWatchResponse(
                    job=job_message(changed.job), resume_version=changed.resume
                )
            if have_ended(jobs, names):
                return
            version, sent = newest_version(jobs, generation), generation
            while generation == sent:
                await self._pause()
                generation, jobs = await self._board.now()
            if generation < sent:
                version = first_version(version, generation)

    async def _pause(self) -> None:
        """Wait until the next look. Raises Unavailable when the process stops."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._leaving.wait()
        except TimeoutError:
            return
        raise Unavailable("the server stops; call again with the last resume_version", code="stopping")


def _document(request: messages.SubmitRequest) -> dict[str, Any]:
    """The document that REST would take. Raises InvalidInput that names the field."""
    if request.mode not in _MODES:
        raise InvalidInput(f"mode: {request.mode} is no mode", field="mode")
    spec: dict[str, Any] = {
        "podRef": {"uid": request.pod_uid, "namespace": request.pod_namespace, "name": request.pod_name},
        "mode": _MODES[request.mode],
        "paused": request.paused,
        "priority": request.priority,
        "targetNode": request.target_node,
        "reason": request.reason,
    }
    for field, name in (("ttl_seconds", "ttl"), ("wait_limit_seconds", "waitLimit")):
        if request.HasField(field):
            spec[name] = _duration(getattr(request, field), field)
    return {"kind": "PodMigrationJob", "metadata": {"name": request.name}, "spec": spec}


def _duration(seconds: float, field: str) -> str:
    if not 0 <= seconds <= 86_400:
        raise InvalidInput(f"{field}: {seconds:g} is not allowed; allowed: 0 to 86400", field=field)
    return f"{seconds:.3f}s"


def _unseen(request: messages.SubmitRequest) -> messages.MigrationJob:
    """A job that no round has taken in yet."""
    named = f"{request.pod_namespace}/{request.pod_name}".strip("/")
    return messages.MigrationJob(
        name=request.name, phase=messages.MIGRATION_PHASE_PENDING, pod=named or request.pod_uid
    )


def job_message(stored: StoredJob) -> messages.MigrationJob:
    """Returns a job as the contract has it."""
    job, pod, hold = stored.job, stored.pod, stored.hold
    held = None
    if hold is not None:
        held = messages.MigrationHold(
            filter=hold.filter.value, scope=hold.scope, count=hold.count, limit=hold.limit, since=_time(hold.since_s)
        )
    return messages.MigrationJob(
        name=stored.name,
        phase=f"MIGRATION_PHASE_{job.phase.name}",
        step=job.step.value,
        reason=job.reason.value,
        message=job.message,
        pod=f"{pod.namespace}/{pod.name}" if pod.name else job.pod,
        workload=pod.workload,
        from_node=job.node,
        node=job.target_node,
        replacement=job.replacement,
        outcome="" if job.outcome is None else job.outcome.value,
        held_by=held,
        source=stored.request.source,
        submitted_at=_time(job.submitted_s),
        ended_at=None if stored.ended_s is None else _time(stored.ended_s),
    )


def _time(at_s: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(datetime.fromtimestamp(at_s, UTC))
    return stamp
