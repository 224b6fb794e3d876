"""Ledger: what is committed is published once and in order, and nothing else is."""

from __future__ import annotations

from typing import ClassVar

from tests.world.attacks import is_forged
from tests.world.invariants import Invariant, Violation
from tests.world.plan import outboxes
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

DIRECT = ("sw.v1.health.reported.", "sw.v1.quota.accounted.")
"""Subjects that services publish without a transaction."""


class CommittedEventsArePublishedOnce(Invariant):
    """An event of a service is stored after its commit, once, and after the events of its subject that were committed
    before it; at rest every committed event has been stored."""

    NAME = "committed events are published once"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._places: dict[str, int] = {}
        """Of each committed event, its place among those of its subject."""
        self._subjects: dict[str, list[str]] = {}
        self._newest: dict[str, int] = {}
        """By subject, the place of the newest event that was stored."""
        self._stored: dict[str, tuple[str, int]] = {}

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            commit: Commit = step.value
            for event in commit.events:
                if is_forged(event.id):
                    continue
                own = self._subjects.setdefault(event.subject, [])
                self._places[event.id] = len(own)
                own.append(event.id)
        elif step.value.headers.get("ce-source") in outboxes(self.world.plan) and not step.subject.startswith(DIRECT):
            self._check_stored(step)

    def _check_stored(self, step: Step) -> None:
        identity, stream, sequence = step.detail["id"], step.detail["stream"], step.detail["sequence"]
        place = self._places.get(identity)
        if place is None:
            raise Violation(f"{step.subject} ({identity}) was published, and no transaction has committed it")
        if self._is_there_already(identity, sequence):
            raise Violation(f"{step.subject} ({identity}) is stored at {self._stored[identity]} and at {sequence}")
        if identity not in self._stored:
            newest = self._newest.get(step.subject, -1)
            if place < newest:
                after = self._subjects[step.subject][newest]
                raise Violation(f"{step.subject}: {identity} was stored after {after}, which was committed later")
            self._newest[step.subject] = place
        self._stored[identity] = stream, sequence

    def _is_there_already(self, identity: str, now: int) -> bool:
        """Whether the copy stored before is still there. A stream that has lost its tail may store the event again
        under the same number, `now`."""
        stream, sequence = self._stored.get(identity, ("", 0))
        if sequence == now:
            return False
        known = self.world.broker.jetstreams.get(stream)
        found = known.messages.get(sequence) if known is not None else None
        return found is not None and found.message.headers.get("ce-id") == identity

    def at_rest(self) -> None:
        waiting = set()
        for schema in self.world.postgres.schemas.values():
            waiting |= {values[1] for values in schema.tables["outbox"].committed()}
        missing = [one for one in self._places if one not in self._stored and one not in waiting]
        if missing:
            subject = next(name for name, own in self._subjects.items() if missing[0] in own)
            raise Violation(f"{subject}: {missing[0]} was committed and never published; {len(missing)} in all")


INVARIANTS = (CommittedEventsArePublishedOnce,)
