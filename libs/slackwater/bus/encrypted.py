"""A NATS client that says nothing before the connection is encrypted."""

from __future__ import annotations

from logging import LogRecord
from typing import Any

from nats.errors import SecureConnRequiredError

from slackwater.bus.steady import SteadyClient
from slackwater.telemetry.logs import leave_out


class EncryptedClient(SteadyClient):
    """For URLs with tls://. The plain client follows a broker that says it has no TLS, and sends it the password."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # nats-py turns a plain stream into an encrypted one, so asyncio warns at each end of a connection.
        leave_out("asyncio", _worth_saying)

    def _connect_command(self) -> bytes:
        if not self._server_info.get("tls_required"):
            raise SecureConnRequiredError
        return super()._connect_command()


def _worth_saying(line: LogRecord) -> bool:
    return "eof_received() has no effect" not in line.getMessage()
