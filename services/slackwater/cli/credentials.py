"""Credentials of the command line and the authorities it trusts: options before the verb, or the environment."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.model.errors import Misconfigured

TOKEN_VARIABLE = "SLACKWATER_TOKEN"  # noqa: S105 - the name of a variable, not a secret
TOKEN_FILE_VARIABLE = "SLACKWATER_TOKEN_FILE"  # noqa: S105 - the name of a variable, not a secret
CA_VARIABLE = "SLACKWATER_CA"
CERTIFICATE_VARIABLE = "SLACKWATER_CERT"
KEY_VARIABLE = "SLACKWATER_KEY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The given options. Files are read only when they are needed."""

    plain: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    options: Sequence[str] = ("--token-file", "--ca", "--cert", "--key")
    """The option names that messages use for the files, in their order."""

    def token(self) -> str | None:
        """The API token. Raises Misconfigured for a file that cannot be read, or a token that no header can carry."""
        if self.plain is not None or self.token_file is None:
            return _sendable(self.plain, "--token")
        origin = f"{self.options[0]}: {self.token_file}"
        try:
            return _sendable(self.token_file.read_text(encoding="utf-8").strip(), origin)
        except OSError as error:
            raise Misconfigured(f"{origin}: {error.strerror}", field="token_file") from None
        except UnicodeDecodeError:
            raise Misconfigured(
                f"{origin}: is not UTF-8 text; give a file with the token as its only line", field="token_file"
            ) from None

    def verify(self, url: str) -> ssl.SSLContext:
        """The TLS context of a client of `url`. Raises Misconfigured for certificates that cannot be used."""
        if not url.startswith("https:"):
            return without_tls()
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            _, *of_tls, last = self.options
            raise Misconfigured(f"{', '.join(of_tls)} or {last} cannot be used: {error}", field="ca") from None
        return context


def without_tls() -> ssl.SSLContext:
    """A TLS context that trusts no certificate, for a client of plain HTTP. By default each client loads the machine's
    certificates: most of the CPU time of a short command.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _sendable(token: str | None, origin: str) -> str | None:
    """The token, checked. The message does not repeat it. Raises Misconfigured."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Misconfigured(f"{origin}: is not a token; allowed: one line of printable ASCII", field="token")
    return token


_OPTIONS: ContextVar[Credentials] = ContextVar("credentials", default=Credentials())  # noqa: B039 - frozen
"""Of the running command line. Not in the environment, because the command that `exec` starts would inherit the
token.
"""


def remember(given: Credentials) -> None:
    """Store the options before the verb for the current context."""
    _OPTIONS.set(given)


def token_origin() -> str | None:
    """The option or variable that gives the token of `credentials()`; None if none does."""
    given = _OPTIONS.get()
    origins = (
        ("--token", given.plain),
        (TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE)),
        ("--token-file", given.token_file),
        (TOKEN_FILE_VARIABLE, os.environ.get(TOKEN_FILE_VARIABLE)),
    )
    return next((origin for origin, value in origins if value), None)


def credentials() -> Credentials:
    """Credentials from the options of the running command, else from the environment."""
    given = _OPTIONS.get()

    def file(option: Path | None, variable: str) -> Path | None:
        return option or (Path(named) if (named := os.environ.get(variable)) else None)

    return Credentials(
        given.plain or os.environ.get(TOKEN_VARIABLE) or None,
        file(given.token_file, TOKEN_FILE_VARIABLE),
        file(given.ca, CA_VARIABLE),
        file(given.certificate, CERTIFICATE_VARIABLE),
        file(given.key, KEY_VARIABLE),
    )
