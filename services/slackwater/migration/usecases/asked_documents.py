"""What the documents in force ask for."""

from __future__ import annotations

from slackwater.migration.domain.migration_round import MigrationAsks
from slackwater.migration.domain.stored_jobs import MigrationLedger
from slackwater.migration.usecases.arbitration_documents import rules_in_force
from slackwater.model.time import Clock
from slackwater.podmigration.documents import ArbitrationRules
from slackwater.runtime.served_kinds import ServedKind


class AskedDocuments:
    """slackwater.migration.usecases.move_pods.MoveAsks."""

    def __init__(self, jobs: ServedKind, reservations: ServedKind, args: ServedKind, clock: Clock) -> None:
        self._kept = (jobs.in_force, reservations.in_force, args.in_force)
        self._jobs = jobs.in_force
        self._reservations = reservations.in_force
        self._args = args.in_force
        self._clock = clock
        self._first_s: dict[tuple[str, int], float] = {}
        """When each document was seen first, by the clock of this service."""

    async def read(self) -> None:
        """Read all documents again. Raises Unavailable."""
        for kept in self._kept:
            await kept.catch_up()

    def rules(self) -> ArbitrationRules:
        return rules_in_force(self._args.now)

    def now(self, ledger: MigrationLedger) -> MigrationAsks:
        """A job is withdrawn if its document is gone, and not only unreadable."""
        found, kept = self._jobs.now, self._reservations.now
        now_s = self._clock.now().timestamp()
        keys = [(name, asked.request.generation) for name, asked in found.values.items()]
        self._first_s = {key: self._first_s.get(key, now_s) for key in keys}
        withdrawn = {name for name, stored in ledger.jobs.items() if stored.request.generation and name in found.gone}
        return MigrationAsks(
            jobs={name: asked.request for name, asked in found.values.items()},
            asked_s={name: self._first_s[name, asked.request.generation] for name, asked in found.values.items()},
            withdrawn=withdrawn,
            reservations=kept.values,
            gone_reservations=kept.gone.keys(),
        )
