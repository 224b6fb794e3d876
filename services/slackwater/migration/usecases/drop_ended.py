"""Drops ended jobs with their documents, and answers that nothing asks for any more."""

from __future__ import annotations

from contextlib import suppress

from slackwater.migration.ports import MigrationStore
from slackwater.migration.usecases.job_documents import AskedJob
from slackwater.migration.usecases.job_records import SERVICE
from slackwater.migration.usecases.move_pods import MovePods
from slackwater.model.errors import NotFound
from slackwater.model.time import Clock
from slackwater.podmigration.documents import PodMigrationJob
from slackwater.resources.change import ChangeResources


class DropEnded:
    """The decision records stay. The document goes first: without it the next round makes no new job of it."""

    def __init__(
        self,
        moves: MovePods,
        documents: ChangeResources[PodMigrationJob, AskedJob],
        store: MigrationStore,
        clock: Clock,
        keep_seconds: float,
    ) -> None:
        self._moves = moves
        self._documents = documents
        self._store = store
        self._clock = clock
        self._keep_s = keep_seconds

    async def __call__(self) -> None:
        """Raises Unavailable, Conflict."""
        before_s = self._clock.now().timestamp() - self._keep_s
        ended = await self._moves.ended_before(before_s)
        for stored in ended:
            if stored.request.generation:
                with suppress(NotFound):
                    await self._documents.delete(stored.name, by=SERVICE)
        if ended:
            await self._moves.drop([stored.name for stored in ended])
        if self._moves.is_mine():
            await self._store.drop_answers(before_s)
