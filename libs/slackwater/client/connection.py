"""Where a server is and how to be let in: address, token and certificates."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.model.errors import InvalidInput, Misconfigured

SERVER_VARIABLE = "SLACKWATER_SERVER"
TOKEN_VARIABLE = "SLACKWATER_TOKEN"  # noqa: S105 - the name of a variable, not a secret
CA_VARIABLE = "SLACKWATER_CA"
DEFAULT_SERVER = "http://127.0.0.1:8460"
TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """The options of an HTTP client of one server."""

    server: str
    token: str | None = field(default=None, repr=False)
    verify: ssl.SSLContext | None = None
    timeout: float = TIMEOUT_SECONDS

    def options(self) -> dict[str, Any]:
        """Arguments of httpx2.Client and httpx2.AsyncClient. Proxies of the environment are not used."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {
            "base_url": self.server,
            "headers": headers,
            "timeout": self.timeout,
            "trust_env": False,
            "verify": self.verify or tls_context(self.server),
        }


def connection(
    server: str | None,
    token: str | None,
    ca: str | Path | None,
    certificate: tuple[str | Path, str | Path] | None,
    timeout: float,
) -> ServerAccess:
    """The given options, else SLACKWATER_SERVER, SLACKWATER_TOKEN and SLACKWATER_CA, else a server on this machine.

    Raises: InvalidInput for an address of another form, Misconfigured for a token or certificates that cannot be used.
    """
    url = checked_address(server or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER, "server")
    sent = sendable(token or os.environ.get(TOKEN_VARIABLE) or None, "token")
    return ServerAccess(url, sent, tls_context(url, ca or os.environ.get(CA_VARIABLE) or None, certificate), timeout)


def checked_address(url: str, origin: str) -> str:
    """The address. Raises InvalidInput that names the origin."""
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise InvalidInput(f"{origin}: {url!r} is not an address; use the form {DEFAULT_SERVER}", field="server")
    return url


def sendable(token: str | None, origin: str) -> str | None:
    """The token, checked. The message does not repeat it. Raises Misconfigured."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Misconfigured(f"{origin}: is not a token; allowed: one line of printable ASCII", field="token")
    return token


def tls_context(
    url: str, ca: str | Path | None = None, certificate: tuple[str | Path, str | Path | None] | None = None
) -> ssl.SSLContext:
    """The TLS context of a client of `url`; one of plain HTTP trusts no certificate, because by default each client
    loads the machine's certificates, which is most of the CPU time of a short command.

    Raises: Misconfigured for files that cannot be used.
    """
    if not url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except OSError as error:
        raise Misconfigured(f"certificates cannot be used: {error}", field="ca") from None
    return context
