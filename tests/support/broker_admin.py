"""The admin interface of the in-memory broker."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.broker import MemoryBroker

from slackwater.bus.admin.broker_admin import ConsumerState, DeadLetterRow, Newest, dead_letter_row
from slackwater.bus.admin.streams import DLQ
from slackwater.bus.codec.cloudevents import Message


class MemoryAdmin:
    """See slackwater.bus.admin.broker_admin.BrokerAdmin. Dead letters have no time, because this broker keeps none."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    async def consumers(self) -> Sequence[ConsumerState]:
        return [self._broker.consumer_state(name) for name in sorted(self._broker.topology.consumers)]

    async def letter_count(self) -> int:
        return len(self._letters())

    async def letters(self, before: int | None = None, limit: int = 50) -> Sequence[DeadLetterRow]:
        letters = [letter for letter in self._letters() if before is None or letter.position < before]
        return letters[::-1][:limit]

    async def letter(self, position: int) -> DeadLetterRow | None:
        return next((letter for letter in self._letters() if letter.position == position), None)

    async def newest_on(self, subject: str) -> Newest | None:
        stream, message = self._last(subject)
        if stream is None or message is None:
            return None
        only = self._broker.topology.streams[stream].max_messages_per_subject == 1
        return Newest(message.headers.get("ce-id", ""), only)

    async def put_back(self, message: Message) -> None:
        stream, _ = self._last(message.subject)
        self._broker.store(stream or "?", message)

    async def last_body(self, subject: str) -> bytes | None:
        _, message = self._last(subject)
        return message.body if message is not None else None

    def _letters(self) -> list[DeadLetterRow]:
        return [dead_letter_row(at, m.headers, m.body, None) for at, m in self._broker.after(DLQ, "sw.v1.dlq.", 0)]

    def _last(self, subject: str) -> tuple[str | None, Message | None]:
        for name, spec in self._broker.topology.streams.items():
            if any(subject.startswith(pattern.removesuffix(">")) for pattern in spec.subjects):
                kept = self._broker.after(name, subject.removesuffix(">"), 0)
                same = [m for _, m in kept if subject.endswith(">") or m.subject == subject]
                return name, same[-1] if same else None
        return None, None
