"""What the use cases need: the ledger in one transaction, what was asked for and answered meanwhile, and meters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from slackwater.events.envelope import Event
from slackwater.migration.domain.job_asks import JobAsk
from slackwater.migration.domain.stored_jobs import (
    EvictionAnswer,
    GrantAnswer,
    MigrationLedger,
    StoredJob,
    StoredReservation,
)


class MigrationStore(Protocol):
    """Where jobs, reservations and the row of arbitration are kept. Every method raises Unavailable."""

    async def load(self) -> MigrationLedger:
        """Returns all that is kept."""
        ...

    async def commit(
        self,
        before: MigrationLedger,
        after: MigrationLedger,
        events: Sequence[Event[Any]],
        done: Collection[str] = (),
    ) -> MigrationLedger:
        """Write what differs and the events, in the next generation; remove the asks of these keys. Returns the ledger
        as written. Raises Conflict if another replica has written since."""
        ...

    async def generation(self) -> int:
        """Returns the generation of the ledger: it rises with every change of any job."""
        ...

    async def jobs(self) -> Mapping[str, StoredJob]:
        """Returns all jobs by name."""
        ...

    async def reservations(self) -> Mapping[str, StoredReservation]:
        """Returns all reservations by name."""
        ...

    async def asks(self) -> Mapping[str, JobAsk]:
        """Returns what was asked for and is not taken in yet, by key."""
        ...

    async def ask(self, asks: Sequence[JobAsk]) -> None:
        """Keep what is asked for; the same key again changes nothing."""
        ...

    async def answers(self, keys: Collection[str]) -> Sequence[EvictionAnswer | GrantAnswer]:
        """Returns the answers of these keys: of nodes to evictions, and to requests for a grant."""
        ...

    async def answer(self, said: EvictionAnswer | GrantAnswer) -> None:
        """Keep an answer; the first of a key stays."""
        ...

    async def drop_answers(self, before_s: float) -> int:
        """Delete answers from before; returns how many."""
        ...
