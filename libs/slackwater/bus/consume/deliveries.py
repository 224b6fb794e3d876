"""JetStream messages as deliveries: settlement in JetStream's acknowledgement protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from slackwater.bus.connect.nats_client import DeliveredMsg
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

_GOES_ON = b"+WPI"
_DELIVERIES, _STREAM_SEQUENCE, _STORED_AT, _PENDING = (
    4,
    5,
    7,
    8,
)  # $JS.ACK.stream.consumer.deliveries.sequence.….time.pending


class ReadDelivery:
    """A message that is read without acknowledgement; settlement has no effect."""

    __slots__ = ("_message", "_tokens", "before")

    def __init__(self, message: Msg) -> None:
        self.before = 0
        """Deliveries that the broker does not, or no longer, count."""
        self._message = message
        self._tokens = message.reply.split(".")
        if len(self._tokens) > 9:  # with domain and account tokens in front
            self._tokens = [*self._tokens[:2], *self._tokens[4:]]

    @property
    def subject(self) -> str:
        return self._message.subject

    @property
    def headers(self) -> Mapping[str, str]:
        return self._message.headers or {}

    @property
    def body(self) -> bytes:
        return self._message.data

    @property
    def deliveries(self) -> int:
        return int(self._tokens[_DELIVERIES]) + self.before

    @property
    def stream_sequence(self) -> int:
        return int(self._tokens[_STREAM_SEQUENCE])

    @property
    def stored_at_seconds(self) -> float:
        return int(self._tokens[_STORED_AT]) / 1e9

    @property
    def pending(self) -> int:
        return int(self._tokens[_PENDING])


class NatsDelivery(ReadDelivery):
    """A message of a durable consumer. An acknowledgement that cannot be sent is not fatal: the
    message is redelivered. None is sent after a reconnect (see DeliveredMsg).
    """

    __slots__ = ()

    @property
    def is_current(self) -> bool:
        """Returns whether the message is still in hand here."""
        return not isinstance(self._message, DeliveredMsg) or self._message.is_answerable

    async def ack(self) -> None:
        await self._answer(b"+ACK")

    async def nak(self, delay_seconds: float) -> None:
        delay = json.dumps({"delay": int(delay_seconds * 1e9)})
        await self._answer(b"-NAK " + delay.encode() if delay_seconds > 0 else b"-NAK")

    async def term(self) -> None:
        await self._answer(b"+TERM")

    async def in_progress(self) -> None:
        await self._answer(_GOES_ON)

    async def _answer(self, answer: bytes) -> None:
        """Send the acknowledgement and drop the body at once, before the rest of the batch is
        settled.
        """
        if answer is not _GOES_ON:
            self._message.data = b""
        if not self.is_current:
            log.info("answer of an earlier connection dropped", subject=self.subject)
            return
        try:
            await self._message._client.publish(self._message.reply, answer)
        except NatsError as error:
            log.info("answer not sent", subject=self.subject, error=repr(error))
