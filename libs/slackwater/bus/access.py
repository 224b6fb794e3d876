"""How a process proves to the broker who it is, and the broker to it: SLACKWATER_NATS_<NAME>."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.events.envelope import subject_token
from slackwater.model.errors import Misconfigured
from slackwater.runtime.loopback import is_loopback

API_PREFIX = "$JS.API"
AGENT_API_PREFIX = "sw.js"
"""What JetStream's API is called in an agent's account: see bus.permissions."""


class NatsAccess(BaseSettings):
    """Credentials and certificates. Nothing given: a broker that asks for nothing, as the embedded one."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_NATS_", frozen=True)

    user: str | None = None
    """An agent may leave it out: it knows its node."""
    password: SecretStr | None = None
    password_file: Path | None = None
    """The password as the only line of a file; read at every start."""
    ca: Path | None = None
    """The authorities whose signature the broker's certificate must have; the URL must then begin with tls://."""
    certificate: Path | None = None
    key: Path | None = None
    """Our own certificate and its key, for a broker that asks for one (mTLS)."""
    api_prefix: str = API_PREFIX

    def of_agent(self, node: str) -> NatsAccess:
        """An agent that was given a password and no user is its node's: whoever starts agents on many nodes (a
        DaemonSet) has their names, and no means to write them as the broker does."""
        if self.user is not None or (self.password is None and self.password_file is None):
            return self
        return self.model_copy(update={"user": agent_user(node)})

    def options(self, url: str) -> dict[str, Any]:
        """What the client's `connect` takes. Raises Misconfigured, without ever showing a secret."""
        found: dict[str, Any] = {}
        if self.user is not None:
            found |= {"user": self.user, "password": self._password(), "inbox_prefix": inbox_of(self.user)}
        context = self._tls(url)
        self._refuse_a_broker_open_to_all(url)
        return found if context is None else found | {"tls": context}

    def _refuse_a_broker_open_to_all(self, url: str) -> None:
        """Beyond this machine: who may say what must be known to the broker, or at least who it is itself to us."""
        parts = urlsplit(url)
        if (
            self.user is None
            and parts.username is None
            and parts.scheme != "tls"
            and not is_loopback(parts.hostname or "")
        ):
            raise Misconfigured(
                f"will not use the broker at {parts.hostname} without credentials or TLS: set SLACKWATER_NATS_USER and "
                "SLACKWATER_NATS_PASSWORD_FILE, or tls:// in its URL and SLACKWATER_NATS_CA; `slackwater nats-config` "
                "makes a broker that asks for them",
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
        encrypted = urlsplit(url).scheme == "tls"
        if not encrypted:
            if self.ca is not None or self.certificate is not None:
                # A client that merely offers TLS follows a broker, or a man in the middle, that says it has none.
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


def without_login(url: str) -> str:
    """The address as it may be written into logs."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def agent_user(node: str) -> str:
    """The broker's name for the agent of a node: user, and name of its one consumer, hence one token of a subject."""
    return f"agent-{subject_token(node)}"


def inbox_of(user: str) -> str:
    """Where this user's answers arrive: its permissions name it, so that nobody reads another's."""
    return f"_INBOX.{''.join(c if c.isascii() and (c.isalnum() or c in '-_') else '_' for c in user)}"
