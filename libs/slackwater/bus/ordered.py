"""Reading a stream in order without acknowledgement, for watch and replay.

An ephemeral consumer is cheap to make, so every doubt (new connection, hole in its numbering, consumer gone) is
answered the same way: make another one just after the last message seen.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from slackwater.bus.pulling import EXPIRES_SECONDS, ConsumerGone, Puller

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: after a stream position, or (None) with the last message of every subject."""

    after_sequence: int | None


class OrderedReader:
    """The messages of some subjects of one stream, in order, each once as long as the stream lives."""

    def __init__(
        self, client: Client, js: JetStreamContext, stream: str, filters: list[str], start: Start, batch: int
    ) -> None:
        self._client = client
        self._js = js
        self._stream = stream
        self._filters = filters
        self._after = start.after_sequence
        self._batch = batch
        self._puller: Puller | None = None
        self._consumer_sequence = 0

    async def next(self) -> list[Msg]:
        """At least one message, or none if there was nothing for a while. Raises nats errors, ConsumerGone."""
        if self._puller is None:
            self._puller = await self._open()
        messages = await self._puller.next()
        for position, message in enumerate(messages):
            metadata = message.metadata
            if metadata.sequence.consumer != self._consumer_sequence + 1:
                log.info("hole in %s after %s: reading again from there", self._stream, self._after)
                await self.reset()
                return messages[:position]
            self._consumer_sequence = metadata.sequence.consumer
            self._after = metadata.sequence.stream
        return messages

    def rewind(self, after_sequence: int) -> None:
        """Go back to a position at the next reset."""
        self._after = after_sequence

    async def reset(self) -> None:
        """Forget the consumer; the next read makes a new one."""
        puller, self._puller = self._puller, None
        if puller is not None:
            await puller.close()

    def interrupt(self, reason: str) -> None:
        if self._puller is not None:
            self._puller.interrupt(reason)

    async def _open(self) -> Puller:
        state = (await self._js.stream_info(self._stream)).state
        if self._after is not None and self._after > state.last_seq:
            # A memory stream after a restart of the broker, or a tail lost in a power cut: positions begin anew.
            log.warning(
                "%s ends at %d, before position %d: it was lost and begins anew",
                self._stream,
                state.last_seq,
                self._after,
            )
            self._after = None if state.last_seq == 0 or not self._after else state.last_seq
        config = ConsumerConfig(
            filter_subjects=self._filters,
            ack_policy=AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=2 * EXPIRES_SECONDS,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT if self._after is None else DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=None if self._after is None else self._after + 1,
        )
        info = await self._js.add_consumer(self._stream, config)
        self._consumer_sequence = 0
        puller = Puller(self._client, self._stream, info.name, self._batch)
        await puller.open()
        return puller


__all__ = ["ConsumerGone", "OrderedReader", "Start"]
