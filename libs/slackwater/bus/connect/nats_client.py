"""NATS clients that survive late answers and malformed bytes, and send nothing before the connection is encrypted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from logging import LogRecord
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import SecureConnRequiredError

from slackwater.telemetry.logs import leave_out

_ANSWER = b"PUB $JS.ACK."
_STALE = "stale connection"
T = TypeVar("T")


@dataclass
class DeliveredMsg(Msg):
    """A message and the connection on which it arrived.

    After a power failure of the broker another message may stand at the sequence number of a lost
    one. An acknowledgement names only the number: sent on a later connection, it would settle a
    message that no process has handled.
    """

    connection: int = field(init=False)
    """Number of reconnects before it arrived."""

    def __post_init__(self) -> None:
        self.connection = self._client.stats["reconnects"]

    @property
    def is_answerable(self) -> bool:
        """Returns whether the connection on which it arrived still stands."""
        return self.connection == self._client.stats["reconnects"] and not self._client.is_reconnecting


def is_clustered(client: Client) -> bool:
    """Returns whether the client's server belongs to a cluster, as the server says."""
    return bool(client._server_info.get("cluster"))


async def cancellable(answer: Awaitable[T]) -> T:
    """Wait for an answer. Raises CancelledError for a cancellation that comes together with it: wait_for of Python
    3.11, with which nats-py waits, swallows that one, and the task goes on for ever.
    """
    task = asyncio.current_task()
    cancellations = 0 if task is None else task.cancelling()
    try:
        return await answer
    finally:
        if task is not None and task.cancelling() > cancellations:
            raise asyncio.CancelledError


class SteadyClient(Client):
    """Keeps reading where the plain client (nats-py 2.16) raises and the connection stops
    receiving.

    That happens for a pong without a waiting ping (a cancelled flush or drain), and for subjects
    and header blocks that are not UTF-8: a client that may publish on one subject with a wildcard
    part could silence every reader, again at each redelivery. Such bytes are read as `?`; decoding
    then refuses the message.
    """

    msg_class = DeliveredMsg

    async def connect(self, *args: Any, **options: Any) -> None:
        await cancellable(super().connect(*args, **options))

    async def request(self, *args: Any, **options: Any) -> Msg:
        return await cancellable(super().request(*args, **options))

    async def flush(self, *args: Any, **options: Any) -> None:
        await cancellable(super().flush(*args, **options))

    async def move_on(self) -> None:
        """Reconnect to another server of the cluster, because this one is reachable and of no use."""
        if self._current_server is not None:
            self._current_server.reconnects += 1
        await self.force_reconnect()

    async def _attempt_reconnect(self) -> None:
        """Abort the connection that is given up: the plain client closes it, and that waits until its buffer is
        written, for ever if the server is stopped and reads nothing.

        An attempt that a later one cancels may say so on the future of the later one, which then fails as its last act.
        """
        self.abort()
        with suppress(asyncio.InvalidStateError):
            await super()._attempt_reconnect()

    def abort(self) -> None:
        """Drop the connection with all that was not written to it."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    async def _connect_to_server(self, s: Any) -> None:
        """Close the socket of an attempt that was accepted and got no further: the plain client forgets it, open."""
        if self._transport:
            self._transport.close()  # type: ignore[no-untyped-call]  # nats-py
        await super()._connect_to_server(s)

    async def _process_err(self, err_msg: str) -> None:
        """Report the broker's error and go on: the plain client closes for ever, also where the broker does not. Where
        the broker ends the connection, its end is read, and the client connects again.
        """
        if _STALE in err_msg.lower():
            await super()._process_err(err_msg)
        else:
            await self._error_cb(NatsError(f"nats: {err_msg.strip(chr(39))}"))

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except UnicodeDecodeError:
            return await super()._process_headers(_readable(headers))

    def drop_answers(self) -> None:
        """Drop acknowledgements that were not sent before the connection ended (see DeliveredMsg): the plain client
        sends them after a reconnect. Messages to publish stay.
        """
        self._pending = [command for command in self._pending if not command.startswith(_ANSWER)]
        self._pending_data_size = sum(map(len, self._pending))

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Any:
        if not subject.isascii():
            subject = _readable(subject)
        return super()._build_message(sid, subject, reply, data, headers)


def _readable(text: bytes) -> bytes:
    return bytes(text).decode("ascii", "replace").encode("ascii", "replace")


class EncryptedClient(SteadyClient):
    """Client for tls:// URLs. The plain client accepts a broker that claims to have no TLS, and
    sends it the password.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # nats-py upgrades a plain stream to TLS, so asyncio warns at each end of a connection.
        leave_out("asyncio", _is_worth_logging)

    def _connect_command(self) -> bytes:
        if not self._server_info.get("tls_required"):
            raise SecureConnRequiredError
        return super()._connect_command()


def _is_worth_logging(line: LogRecord) -> bool:
    return "eof_received() has no effect" not in line.getMessage()
