"""Operator access on NATS JetStream, through its management requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from email.header import Header, decode_header

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo, RawStreamMsg
from nats.js.errors import NotFoundError

from slackwater.bus.admin.broker_admin import ConsumerState, DeadLetterRow, Newest, dead_letter_row
from slackwater.bus.admin.streams import DLQ, Topology, durable_names
from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.connect.publisher import StreamPublisher
from slackwater.model.errors import Unavailable

_CHUNK = 50
_LONGEST_SEARCH = 2000
"""Positions examined for one page: removed letters leave gaps."""


class NatsAdmin:
    """See slackwater.bus.admin.broker_admin.BrokerAdmin."""

    def __init__(self, js: JetStreamContext, publisher: StreamPublisher, topology: Topology) -> None:
        self._js = js
        self._publisher = publisher
        self._topology = topology

    async def consumers(self) -> Sequence[ConsumerState]:
        with _answering():
            lists = await asyncio.gather(*(self._js.consumers_info(stream) for stream in self._topology.streams))
        whole = {
            durable: name for name, spec in self._topology.consumers.items() for durable in durable_names(name, spec)
        }
        states: dict[str, ConsumerState] = {}
        for info in (info for infos in lists for info in infos if info.config.durable_name):
            state = _state(info, whole.get(info.name, info.name))
            states[state.name] = _together(states[state.name], state) if state.name in states else state
        return sorted(states.values(), key=lambda state: state.name)

    async def letter_count(self) -> int:
        with _answering():
            return int((await self._js.stream_info(DLQ)).state.messages)

    async def letters(self, before: int | None = None, limit: int = 50) -> Sequence[DeadLetterRow]:
        with _answering():
            state = (await self._js.stream_info(DLQ)).state
        letters: list[DeadLetterRow] = []
        top = min(state.last_seq, before - 1) if before is not None else state.last_seq
        lowest = max(state.first_seq, 1, top - _LONGEST_SEARCH)
        while len(letters) < limit and top >= lowest and state.messages:
            bottom = max(lowest, top - _CHUNK + 1)
            chunk = await asyncio.gather(*(self.letter(at) for at in range(top, bottom - 1, -1)))
            letters += [letter for letter in chunk if letter is not None]
            top = bottom - 1
        return letters[:limit]

    async def letter(self, position: int) -> DeadLetterRow | None:
        message = await self._message(DLQ, position=position)
        if message is None:
            return None
        return dead_letter_row(position, _texts(message), message.data or b"", message.time)

    async def newest_on(self, subject: str) -> Newest | None:
        stream = self._keeper(subject)
        message = await self._message(stream, subject=subject) if stream else None
        if stream is None or message is None:
            return None
        only = self._topology.streams[stream].max_messages_per_subject == 1
        return Newest(_texts(message).get("ce-id", ""), only)

    async def put_back(self, message: Message) -> None:
        await self._publisher.store(self._keeper(message.subject) or "?", message)

    async def last_body(self, subject: str) -> bytes | None:
        stream = self._keeper(subject)
        message = await self._message(stream, subject=subject) if stream else None
        return message.data if message is not None else None

    async def _message(
        self, stream: str, position: int | None = None, subject: str | None = None
    ) -> RawStreamMsg | None:
        with _answering():
            try:
                return await self._js.get_msg(stream, seq=position, subject=subject)
            except NotFoundError:
                return None

    def _keeper(self, subject: str) -> str | None:
        """Returns the stream that keeps a subject; its filters all end in `>`."""
        for name, spec in self._topology.streams.items():
            if any(subject.startswith(pattern.removesuffix(">")) for pattern in spec.subjects):
                return name
        return None


def _texts(message: RawStreamMsg) -> Mapping[str, str]:
    """Returns the headers as they were sent. nats-py parses those of a single stored message as
    mail headers: a non-ASCII value becomes an `email.header.Header`, which can be neither stored
    nor compared.
    """
    return {str(name): _text(value) for name, value in (message.headers or {}).items()}


def _text(value: str | Header) -> str:
    if isinstance(value, str):
        return value
    parts = (part if isinstance(part, bytes) else part.encode() for part, _ in decode_header(value))
    return b"".join(parts).decode(errors="replace")


def _state(info: ConsumerInfo, name: str) -> ConsumerState:
    return ConsumerState(
        name=name,
        stream=info.stream_name,
        pending=info.num_pending or 0,
        unsettled=info.num_ack_pending or 0,
        redelivered=info.num_redelivered or 0,
    )


def _together(state: ConsumerState, other: ConsumerState) -> ConsumerState:
    """Returns the sum of two partitions of one consumer."""
    return replace(
        state,
        pending=state.pending + other.pending,
        unsettled=state.unsettled + other.unsettled,
        redelivered=state.redelivered + other.redelivered,
    )


@contextmanager
def _answering() -> Iterator[None]:
    """Translates NATS errors to Unavailable; NotFoundError passes through for lookups of a single
    message.
    """
    try:
        yield
    except NotFoundError as error:
        raise Unavailable(f"the broker does not have it: {error.description}") from error
    except (NatsError, TimeoutError) as error:
        raise Unavailable(f"the broker did not answer: {str(error) or type(error).__name__}") from error
