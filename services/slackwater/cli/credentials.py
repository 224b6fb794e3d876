"""How the command line proves who it is, and whom it believes: options before the verb, or the environment."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

import click

from slackwater.model.errors import Misconfigured

TOKEN_VARIABLE = "SLACKWATER_TOKEN"  # noqa: S105 - the name of a variable, not a secret
TOKEN_FILE_VARIABLE = "SLACKWATER_TOKEN_FILE"  # noqa: S105 - the name of a variable, not a secret
CA_VARIABLE = "SLACKWATER_CA"
CERTIFICATE_VARIABLE = "SLACKWATER_CERT"
KEY_VARIABLE = "SLACKWATER_KEY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What was given. Nothing is read before it is needed."""

    plain: str | None = None
    token_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def token(self) -> str | None:
        """Raises Misconfigured for a file that cannot be read."""
        if self.plain is not None or self.token_file is None:
            return self.plain
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Misconfigured(f"--token-file: {self.token_file}: {error.strerror}", field="token_file") from None

    def verify(self) -> ssl.SSLContext:
        """Raises Misconfigured for certificates that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            raise Misconfigured(f"--ca, --cert or --key cannot be used: {error}", field="ca") from None
        return context


def credentials() -> Credentials:
    """From the options of the running command, else from the environment."""
    context = click.get_current_context(silent=True)
    given = context.find_root().params if context is not None else {}

    def option(name: str, variable: str) -> str | None:
        found = given.get(name) or os.environ.get(variable) or None
        return None if found is None else str(found)

    def file(name: str, variable: str) -> Path | None:
        found = option(name, variable)
        return None if found is None else Path(found)

    return Credentials(
        option("token", TOKEN_VARIABLE),
        file("token_file", TOKEN_FILE_VARIABLE),
        file("ca", CA_VARIABLE),
        file("cert", CERTIFICATE_VARIABLE),
        file("key", KEY_VARIABLE),
    )
