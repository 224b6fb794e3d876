"""The ledger of facts: what a service has committed is found in the streams exactly once, and nothing else is."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.world.attacks import is_forged
from tests.world.faults import FORGETS_MESSAGE_IDS
from tests.world.invariants import Invariant, Violation
from tests.world.plan import outboxes
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.health_reported import HealthReported
from slackwater.events.quota_accounted import QuotaAccounted
from slackwater.events.state_quarantined import StateQuarantined

BESIDE_THE_OUTBOX = (HealthReported.TYPE, QuotaAccounted.TYPE, StateQuarantined.TYPE)
"""Types that a service publishes without a commit."""


class FactsAreFoundOnce(Invariant):
    """Each event of a commit is stored once, also if it is committed again under its id (prediction's ids follow from
    the window). A second copy is allowed only where the broker has lost its message ids since; a message of a service
    without a commit is not. At rest each event is stored or waits in the outbox, and no outbox has refused a row."""

    NAME = "facts are found once"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED, Kind.FAULT_BEGAN)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._committed: dict[str, str] = {}
        """Subjects by event id."""
        self._stored: dict[str, int] = {}
        """By event id, how often the broker had lost its ids when it stored the event last."""
        self._losses = 0

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.FAULT_BEGAN:
            self._losses += step.subject in FORGETS_MESSAGE_IDS
        elif step.kind is Kind.COMMITTED:
            self._commit(step.value)
        elif step.value.headers.get("ce-source") in outboxes(self.world.plan):
            self._store(step.subject, str(step.detail["id"]))

    def _commit(self, commit: Commit) -> None:
        for event in commit.events:
            identifier = str(event.id)
            if is_forged(identifier):
                continue
            if self._committed.setdefault(identifier, event.subject) != event.subject:
                raise Violation(
                    f"{identifier} is committed as {event.subject}, before as {self._committed[identifier]}"
                )

    def _store(self, subject: str, identifier: str) -> None:
        known = self._committed.get(identifier)
        if known is None:
            if not subject.startswith(tuple(f"sw.v1.{name}." for name in BESIDE_THE_OUTBOX)):
                raise Violation(f"{subject} ({identifier}) is stored; no service has committed it")
            return
        if known != subject:
            raise Violation(f"{identifier} is stored as {subject}; it was committed as {known}")
        if self._stored.get(identifier) == self._losses:
            raise Violation(f"{subject} ({identifier}) is stored a second time")
        self._stored[identifier] = self._losses

    def at_rest(self) -> None:
        waiting: set[str] = set()
        for service in outboxes(self.world.plan):
            for row in _outbox(self.world, service):
                if is_forged(row["id"]) and row["refused"] is None:
                    raise Violation(f"the outbox of {service} still tries {row['subject']}, which no broker takes")
                if row["refused"] is not None and not is_forged(row["id"]):
                    raise Violation(f"the outbox of {service} refuses {row['subject']}: {row['refused']}")
                waiting.add(str(row["id"]))
        lost = sorted(self._committed.keys() - self._stored.keys() - waiting)
        if lost:
            what = f"{self._committed[lost[0]]} ({lost[0]})"
            raise Violation(f"{what} was committed and never stored; {len(lost)} in all")


def _outbox(world: World, service: str) -> list[dict[str, Any]]:
    table = world.postgres.schemas[service].tables["outbox"]
    return [dict(zip(table.definition.names, values, strict=True)) for values in table.committed()]


INVARIANTS = (FactsAreFoundOnce,)
