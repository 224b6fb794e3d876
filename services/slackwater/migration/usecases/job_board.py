"""All jobs with their versions, read once for any number of followers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.migration.ports import MigrationStore


class JobBoard:
    """Reads jobs anew only if the generation of the ledger has risen."""

    def __init__(self, store: MigrationStore) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._generation: int | None = None
        self._jobs: Mapping[str, StoredJob] = {}

    async def now(self) -> tuple[int, Mapping[str, StoredJob]]:
        """Returns the generation of the ledger, and the jobs at it or later. Raises Unavailable."""
        async with self._turn:
            generation = await self._store.generation()
            if generation != self._generation:
                self._jobs = await self._store.jobs()
                self._generation = generation
            return generation, self._jobs
