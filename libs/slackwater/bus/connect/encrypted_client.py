"""A NATS client that sends nothing before the connection is encrypted."""

from __future__ import annotations

from logging import LogRecord
from typing import Any

from nats.errors import SecureConnRequiredError

from slackwater.bus.connect.nats_client import SteadyClient
from slackwater.telemetry.logs import leave_out


class EncryptedClient(SteadyClient):
    """Client for tls:// URLs. The plain client accepts a broker that claims to have no TLS, and
    sends it the password.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        # nats-py upgrades a plain stream to TLS, so asyncio warns at each end of a connection.
        leave_out("asyncio", _worth_saying)

    def _connect_command(self) -> bytes:
        if not self._server_info.get("tls_required"):
            raise SecureConnRequiredError
        return super()._connect_command()


def _worth_saying(line: LogRecord) -> bool:
    return "eof_received() has no effect" not in line.getMessage()
