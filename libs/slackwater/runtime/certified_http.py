"""Passes a client certificate's name to the application. Separate from other TLS code, because the
agent serves without uvicorn.
"""

from __future__ import annotations

import asyncio
import ssl

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from slackwater.runtime.certificates import CERTIFICATE, common_name


class CertifiedHttp(H11Protocol):
    """HTTP protocol that puts the client certificate's name into the scope, which uvicorn does not
    do.
    """

    app: ASGIApp

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and (name := common_name(tls)) is not None:
            self.app = _with_certificate(self.app, name)


def _with_certificate(app: ASGIApp, name: str) -> ASGIApp:
    async def app_with_certificate(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CERTIFICATE: name}, receive, send)

    return app_with_certificate
