"""The documents of all writers for one node: which one of a writer counts, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from slackwater.agent.domain.desired_state import DesiredState, MemoryLevel, Throttle
from slackwater.agent.domain.waterlines import Waterline
from slackwater.agent.domain.weights import Policy
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.intents.document import is_older, is_renewable


@dataclass(frozen=True, slots=True)
class HeldDocument:
    """The newest document of one writer: the event, and the state that the controls read. `remembered`: it was stored
    before a restart and not renewed since, so it counts as lapsed."""

    event: Event[IntentDeclared]
    desired: DesiredState
    remembered: bool = False


class Acceptance(Enum):
    """What a document that arrives is. A repeated one is not answered."""

    NEW = "new"
    REPEATED = "repeated"
    IGNORED = "ignored"


@dataclass(slots=True)
class HeldDocuments:
    """Times are seconds of a monotonic clock."""

    node: str
    by_writer: dict[str, HeldDocument] = field(default_factory=dict)

    def remember(self, events: Iterable[Event[IntentDeclared]], now_s: float) -> None:
        """Load the documents from before a restart. Weights, waterlines and rules count again; limits do not, because
        the start has put every limit back."""
        for event in events:
            if event.data.node == self.node:
                plain = event.data.model_copy(update={"throttles": (), "memory_throttles": ()})
                state = _desired_state(plain, now_s - plain.lease_seconds)
                self.by_writer[plain.writer] = HeldDocument(
                    event.model_copy(update={"data": plain}), state, remembered=True
                )

    def accept(
        self, event: Event[IntentDeclared], now_s: float, *, disconnected: bool
    ) -> tuple[Acceptance, HeldDocument | None]:
        """Take in a document; returns what it is, and the document that it follows. `disconnected`: the agent decides
        by itself."""
        document = event.data
        before = self.by_writer.get(document.writer)
        if before is not None and _repeats(event, before, now_s, disconnected=disconnected):
            if before.remembered:  # complete again, with its limits, and lapsed until its writer renews it
                self.by_writer[document.writer] = HeldDocument(event, _desired_state(document, before.desired.received))
            return Acceptance.REPEATED, before
        if before is not None and before.remembered and not _is_lost_tail(document, before.event.data):
            before = None  # the first writer that this process receives counts, as after any start
        if document.node != self.node or (before is not None and is_older(document, before.event.data)):
            return Acceptance.IGNORED, before
        self.by_writer[document.writer] = HeldDocument(event, _desired_state(document, now_s))
        return Acceptance.NEW, before

    def renew(self, writer: str, epoch: int, now_s: float) -> bool:
        """Renew the lease of the writer's last document. Returns False where another replica has declared for the node
        since, the document has no lease, or it is only remembered."""
        held = self.by_writer.get(writer)
        if held is None or held.remembered or not is_renewable(held.event.data, epoch):
            return False
        self.by_writer[writer] = replace(held, desired=replace(held.desired, received=now_s))
        return True

    def lapsed(self, now_s: float) -> set[str]:
        """Returns the writers whose lease has run out."""
        return {writer for writer, held in self.by_writer.items() if not held.desired.alive(now_s)}

    def waterlines(self) -> Sequence[Waterline]:
        """Returns all writers' local waterlines. They outlive leases, because an early report costs little."""
        return [line for held in self.by_writer.values() for line in held.desired.waterlines]

    def declared_at(self, writer: str) -> datetime | None:
        """Returns when the writer declared the document that is held; None if there is none."""
        held = self.by_writer.get(writer)
        return None if held is None else held.event.data.declared_at

    def states(self) -> Sequence[DesiredState]:
        """Returns what each writer wants."""
        return [held.desired for held in self.by_writer.values()]


def _repeats(event: Event[IntentDeclared], before: HeldDocument, now_s: float, *, disconnected: bool) -> bool:
    """Returns whether this is a redelivery of the document held. While the agent is disconnected, a document that was
    declared before that counts as a redelivery too."""
    if event.id == before.event.id and not before.remembered:
        return True
    if not disconnected or before.desired.alive(now_s):
        return False
    now, then = event.data, before.event.data
    if (now.epoch, now.generation) > (then.epoch, then.generation):  # whatever the clock of its writer says
        return False
    return now.declared_at <= then.declared_at


def _is_lost_tail(document: IntentDeclared, remembered: IntentDeclared) -> bool:
    """Returns whether a document is one from before the remembered one, which the broker has lost. Its writer declares
    again for an agent that stays disconnected. A writer whose database was lost begins with low epochs and a later
    time."""
    return is_older(document, remembered) and document.declared_at <= remembered.declared_at


def _desired_state(document: IntentDeclared, received: float) -> DesiredState:
    return DesiredState(
        writer=document.writer,
        generation=document.generation,
        received=received,
        lease_seconds=document.lease_seconds,
        policy=Policy(document.weights.value),
        throttles=tuple(Throttle(item.pod_uid, item.cpu_limit_milli, item.decision_id) for item in document.throttles),
        waterlines=tuple(Waterline(line.metric, line.value) for line in document.waterlines),
        memory_throttles=tuple(
            MemoryLevel(item.pod_uid, item.memory_high_bytes, item.decision_id) for item in document.memory_throttles
        ),
        memory_protection=document.memory_protection.value,
        epoch=document.epoch,
    )
