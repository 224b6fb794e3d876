"""Credentials and certificates of the connection to the broker, in both directions:
SLACKWATER_NATS_<NAME>.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.bus.access.tokens import UserCredentials
from slackwater.events.envelope import subject_token
from slackwater.model.errors import Misconfigured
from slackwater.runtime.loopback import is_loopback

API_PREFIX = "$JS.API"
AGENT_API_PREFIX = "sw.js"
AGENT_MESSAGE_BYTES = 524_288
"""Most that an agent's account may publish as one message, headers included: a report of 600 pods. The broker ends a
connection that publishes more.
"""
"""Prefix of the JetStream API in an agent's account; see bus.permissions."""


class NatsAccess(BaseSettings):
    """Credentials and certificates. Without any, the broker must accept connections without
    authentication, as the embedded one does.
    """

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_NATS_", frozen=True)

    credentials_file: Path | None = None
    """File with the token of a user and its key, as `slackwater` and `nsc` write it; read at every connection."""
    enrolment_file: Path | None = None
    """Credentials with which an agent asks for its own. It keeps those in its state directory, and renews them."""
    identity_file: Path | None = None
    """Token of an agent's pod, which proves its node where one enrolment is for all agents of a cluster."""
    authority_file: Path | None = None
    """Seed of the broker's authority: the service that has it gives agents their credentials."""
    user: str | None = None
    """User of a broker with passwords."""
    password: SecretStr | None = None
    password_file: Path | None = None
    """File with the password as its only line; read at every start."""
    ca: Path | None = None
    """Certificate authorities that must have signed the broker's certificate; requires a tls://
    URL.
    """
    certificate: Path | None = None
    key: Path | None = None
    """Client certificate and key, for a broker that requires one (mTLS)."""
    api_prefix: str = API_PREFIX
    replicas: int | None = Field(default=None, ge=1, le=5)
    """Copies of each stream. Unset: 3 in a cluster of brokers that has as many servers, else 1."""

    @property
    def name(self) -> str | None:
        """The user's name; None without credentials. Raises Misconfigured."""
        return self.user if self.credentials_file is None else read_credentials(self.credentials_file).name

    @property
    def message_bytes(self) -> int | None:
        """Most that its account may publish as one message; None: what the broker takes."""
        return None if self.api_prefix == API_PREFIX else AGENT_MESSAGE_BYTES

    def options(self, url: str) -> dict[str, Any]:
        """Returns the arguments for the client's `connect`. Raises Misconfigured; the message never
        contains a secret.
        """
        options: dict[str, Any] = {}
        if self.credentials_file is not None:
            options |= _signed_login(self.credentials_file)
        elif self.user is not None:
            options |= {"user": self.user, "password": self._password(), "inbox_prefix": inbox_of(self.user)}
        context = self._tls(url)
        self._refuse_a_broker_open_to_all(url)
        return options if context is None else options | {"tls": context}

    def _refuse_a_broker_open_to_all(self, url: str) -> None:
        """Refuses a broker beyond this machine that neither authenticates clients nor proves its
        own identity.
        """
        for parts in map(urlsplit, servers_of(url)):
            if (
                self.user is None
                and self.credentials_file is None
                and self.enrolment_file is None
                and parts.username is None
                and parts.scheme != "tls"
                and not is_loopback(parts.hostname or "")
            ):
                raise Misconfigured(
                    f"will not use the broker at {parts.hostname} without credentials or TLS: set "
                    "SLACKWATER_NATS_CREDENTIALS_FILE, or tls:// in its URL and SLACKWATER_NATS_CA; "
                    "`slackwater nats-config` makes a broker that asks for them",
                    field="nats",
                )

    def _password(self) -> str:
        if self.password_file is not None:
            try:
                return self.password_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise Misconfigured(
                    f"SLACKWATER_NATS_PASSWORD_FILE: {self.password_file}: {error.strerror}", field="password_file"
                ) from None
        if self.password is None:
            raise Misconfigured(
                "SLACKWATER_NATS_USER is set: set SLACKWATER_NATS_PASSWORD_FILE (or SLACKWATER_NATS_PASSWORD) too",
                field="password_file",
            )
        return self.password.get_secret_value()

    def _tls(self, url: str) -> ssl.SSLContext | None:
        schemes = {urlsplit(server).scheme for server in servers_of(url)}
        if len(schemes) > 1:
            raise Misconfigured("the addresses of NATS must all begin with tls:// or all with nats://", field="nats")
        encrypted = schemes == {"tls"}
        if not encrypted:
            if self.ca is not None or self.certificate is not None:
                # A client that merely offers TLS accepts a broker, or a man in the middle, that
                # claims to have none.
                raise Misconfigured("certificates for NATS are set, so its URL must begin with tls://", field="nats")
            return None
        if (self.certificate is None) != (self.key is None):
            raise Misconfigured("set both SLACKWATER_NATS_CERTIFICATE and SLACKWATER_NATS_KEY", field="certificate")
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            raise Misconfigured(
                f"SLACKWATER_NATS_CA, _CERTIFICATE or _KEY cannot be used: {error}", field="ca"
            ) from None
        return context


def read_credentials(file: Path, variable: str = "SLACKWATER_NATS_CREDENTIALS_FILE") -> UserCredentials:
    """Returns the credentials in a file. Raises Misconfigured that names the variable, and never the content."""
    try:
        return UserCredentials.parse(file.read_text(encoding="ascii"))
    except OSError as error:
        raise Misconfigured(f"{variable}: {file}: {error.strerror}", field="credentials_file") from None
    except (Misconfigured, UnicodeDecodeError) as error:
        raise Misconfigured(f"{variable}: {file}: {error}", field="credentials_file") from None


def _signed_login(file: Path) -> dict[str, Any]:
    """Returns the options of a login by signature. The file is read again at each, because it is renewed meanwhile."""
    last = read_credentials(file)

    def answer(nonce: str) -> bytes:  # asked for before the token, which must be of the same key
        nonlocal last
        with suppress(Misconfigured):  # being replaced, or gone: the last ones may still be valid
            last = read_credentials(file)
        return last.answer(nonce)

    return {
        "user_jwt_cb": lambda: bytearray(last.token.encode()),
        "signature_cb": answer,
        "inbox_prefix": inbox_of(last.name),
    }


def servers_of(url: str) -> list[str]:
    """Returns the servers of an address: one, or those of a cluster, separated by commas."""
    return [server.strip() for server in url.split(",") if server.strip()]


def without_login(url: str) -> str:
    """Returns the address without credentials, safe for logs."""
    servers = map(urlsplit, servers_of(url))
    return ",".join(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() for parts in servers)


def agent_user(node: str) -> str:
    """Returns the agent's broker user. It is also the name of its one consumer, so it is a single
    subject token.
    """
    return f"agent-{subject_token(node)}"


def inbox_of(user: str) -> str:
    """Returns the inbox prefix of a user. Permissions name it, so that no client reads another's
    answers.
    """
    return f"_INBOX.{''.join(c if c.isascii() and (c.isalnum() or c in '-_') else '_' for c in user)}"
