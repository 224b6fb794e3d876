"""The servers of the world, and what the record says of them: every stored message and every commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from tests.world.trace import Kind

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.model.time import Clock
from slackwater.store.port import Fence
from slackwater.testing.broker import MemoryBroker
from slackwater.testing.leases import LeaseBook
from slackwater.testing.statements import answer_common
from slackwater.testing.store import MemoryDatabase, MemoryUnitOfWork

Record = Callable[..., None]


class WorldBroker(MemoryBroker):
    """Records what it stores."""

    def __init__(self, clock: Clock, record: Record) -> None:
        self._record = record
        super().__init__(clock=clock)
        self._listeners = OrderedListeners()  # type: ignore[assignment]

    def store(self, stream: str, message: Message) -> int:
        before = self.ends(stream)[1]
        position = super().store(stream, message)
        if position > before:
            headers = message.headers
            self._record(
                Kind.STORED,
                message.subject,
                cause=headers.get("ce-causedby", ""),
                detail={"stream": stream, "sequence": position, "id": headers.get("ce-id", "")},
                value=message,
                content=message.body,
            )
        return position

    async def broadcast(self, message: Message) -> None:
        self._record(Kind.BROADCAST, message.subject, value=message, content=message.body)
        await super().broadcast(message)

    async def bury(self, letter: DeadLetter, message: Message | None = None) -> None:
        await super().bury(letter, message)
        detail = {"reason": letter.reason, "consumer": letter.consumer, "detail": letter.detail}
        self._record(Kind.BURIED, letter.subject, detail=detail, value=letter)


class OrderedListeners(dict[object, None]):
    """A set that keeps the order of insertion: wake-ups must not depend on addresses."""

    def add(self, listener: object) -> None:
        self[listener] = None

    def discard(self, listener: object) -> None:
        self.pop(listener, None)

    def __iter__(self) -> Iterator[object]:
        return iter(tuple(self.keys()))


class WorldDatabase(MemoryDatabase):
    """The schema of one service. Records every commit with the partitions that it concerned."""

    def __init__(self, name: str, clock: Clock, record: Record) -> None:
        super().__init__(clock=clock)
        self.name = name
        self._record = record
        answer_common(self.answers, self.announce, clock.now)

    @asynccontextmanager
    async def unit_under(self, fence: Fence | None) -> AsyncIterator[MemoryUnitOfWork]:
        async with super().unit_under(fence) as unit:
            yield unit
            unit.effects.append(lambda: self._committed(unit, fence))

    def _committed(self, unit: MemoryUnitOfWork, fence: Fence | None) -> None:
        member = "" if fence is None else fence.member
        commit = Commit(self.book, member, {p: unit.held.get(p) for p in sorted(unit.concerned)} if fence else {})
        detail = {"member": member, "epochs": commit.epochs, "events": [event.id for event in unit.events]}
        self._record(Kind.COMMITTED, self.name, detail=detail, value=commit)


class Commit:
    """What an invariant sees of a commit: the leases at that moment, and the epochs that the writer relied on."""

    def __init__(self, book: LeaseBook, member: str, epochs: dict[int, int | None]) -> None:
        self.book = book
        self.member = member
        self.epochs = epochs
