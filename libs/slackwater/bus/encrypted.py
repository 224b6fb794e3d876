"""A NATS client that says nothing before the connection is encrypted."""

from __future__ import annotations

from nats.aio.client import Client
from nats.errors import SecureConnRequiredError


class EncryptedClient(Client):
    """For URLs with tls://. The plain client follows a broker that says it has no TLS, and sends it the password."""

    def _connect_command(self) -> bytes:
        if not self._server_info.get("tls_required"):
            raise SecureConnRequiredError
        return super()._connect_command()
