"""Credentials of the command line and the authorities it trusts: options before the verb, or the environment."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path

from slackwater.client.connection import CA_VARIABLE, TOKEN_VARIABLE, sendable, tls_context
from slackwater.model.errors import Misconfigured

TOKEN_FILE_VARIABLE = "SLACKWATER_TOKEN_FILE"  # noqa: S105 - the name of a variable, not a secret
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

    def overridden_by(self, later: Credentials) -> Credentials:
        """These, but for what `later` gives; its token replaces a token in either form."""
        token = later if later.plain is not None or later.token_file is not None else self
        return replace(
            self,
            plain=token.plain,
            token_file=token.token_file,
            ca=later.ca or self.ca,
            certificate=later.certificate or self.certificate,
            key=later.key or self.key,
        )

    def token(self) -> str | None:
        """The API token. Raises Misconfigured for a file that cannot be read, or a token that no header can carry."""
        if self.plain is not None or self.token_file is None:
            return sendable(self.plain, "--token")
        origin = f"{self.options[0]}: {self.token_file}"
        try:
            return sendable(self.token_file.read_text(encoding="utf-8").strip(), origin)
        except OSError as error:
            raise Misconfigured(f"{origin}: {error.strerror}", field="token_file") from None
        except UnicodeDecodeError:
            raise Misconfigured(
                f"{origin}: is not UTF-8 text; give a file with the token as its only line", field="token_file"
            ) from None

    def verify(self, url: str) -> ssl.SSLContext:
        """The TLS context of a client of `url`. Raises Misconfigured for certificates that cannot be used."""
        certificate = None if self.certificate is None else (self.certificate, self.key)
        try:
            return tls_context(url, self.ca, certificate)
        except Misconfigured as error:
            _, *of_tls, last = self.options
            raise Misconfigured(f"{', '.join(of_tls)} or {last}: {error.message}", field="ca") from None


_OPTIONS: ContextVar[Credentials] = ContextVar("credentials", default=Credentials())  # noqa: B039 - frozen
"""Of the running command line. Not in the environment, because the command that `exec` starts would inherit the
token.
"""


def remember(given: Credentials) -> None:
    """Store the options before the verb for the current context."""
    _OPTIONS.set(given)


def given_options() -> Credentials:
    """The options of the running command line."""
    return _OPTIONS.get()


_SERVER: ContextVar[str | None] = ContextVar("server", default=None)


def remember_server(given: str | None) -> None:
    """Store the `--server` before the verb for the current context."""
    _SERVER.set(given)


def given_server() -> str | None:
    """The `--server` before the verb; one behind it counts more."""
    return _SERVER.get()


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
