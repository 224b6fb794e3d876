"""What PodMigrationJobs are checked for, what is shown of them, and those that no operator has written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from slackwater.migration.domain.job_asks import JobAsk
from slackwater.migration.ports import MigrationStore
from slackwater.migration.usecases.job_status import job_status
from slackwater.model.errors import Conflict, InvalidInput
from slackwater.model.records import record
from slackwater.model.time import Clock
from slackwater.podmigration.documents import JobRequest, PodMigrationJob, document_of, request_of
from slackwater.resources.hooks import Hooks, InForce


@record(frozen=True, slots=True)
class AskedJob:
    """What a document asks for."""

    request: JobRequest


JobsInForce = InForce[PodMigrationJob, AskedJob]


class MigrationJobHooks(Hooks[PodMigrationJob, AskedJob]):
    """Deleting a document aborts its job: the state row carries the abort, and is kept until the move has ended."""

    def __init__(self, store: MigrationStore | None = None, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock

    def validate(self, document: PodMigrationJob) -> None:
        pod = document.spec.pod_ref
        if not pod.uid and not (pod.namespace and pod.name):
            raise InvalidInput("spec.podRef: give uid, or namespace and name", field="spec.podRef")

    def resolve(self, document: PodMigrationJob, parent: AskedJob | None) -> AskedJob:
        return AskedJob(request_of(document))

    async def prepare(self) -> frozenset[str]:
        return frozenset(document.name for document in await self.made())

    def validate_together(self, changed: Collection[str], now: JobsInForce, would: JobsInForce, prepared: Any) -> None:
        for name in sorted(changed):
            if name in would.values and name in prepared:
                said = f"metadata.name: the descheduler's job {name} has this name; choose another one"
                raise Conflict(said, code="migration_exists", field="metadata.name")
            if name in would.values and name in now.values:
                before, after = now.values[name].request, would.values[name].request
                for field in ("pod_uid", "pod_namespace", "pod_name", "mode"):
                    if getattr(before, field) != getattr(after, field):
                        said = "spec.podRef and spec.mode are for life: delete the job, and apply another one"
                        raise Conflict(said, code="migration_exists", field="spec.podRef")

    async def with_status(self, documents: Sequence[PodMigrationJob], found: JobsInForce) -> Sequence[PodMigrationJob]:
        if self._store is None or not documents:
            return documents
        jobs = await self._store.jobs()
        return [
            document.model_copy(update={"status": job_status(jobs[document.name])})
            if document.name in jobs
            else document
            for document in documents
        ]

    async def made(self) -> Sequence[PodMigrationJob]:
        """The jobs of proposals."""
        if self._store is None:
            return ()
        return [
            document_of(stored.request).model_copy(update={"status": job_status(stored)})
            for _, stored in sorted((await self._store.jobs()).items())
            if stored.request.generation == 0
        ]

    async def withdraw(self, name: str, *, dry_run: bool) -> PodMigrationJob | None:
        document = next((each for each in await self.made() if each.name == name), None)
        if document is not None and not dry_run and self._store is not None and self._clock is not None:
            await self._store.ask([JobAsk(name, self._clock.now().timestamp())])
        return document
