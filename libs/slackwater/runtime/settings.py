"""Settings of the process itself; a service's own are in its `settings.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.model.errors import Misconfigured
from slackwater.runtime.loopback import is_loopback

USUAL_PORT = 8460
USUAL_RPC_PORT = 8461


class HttpSettings(BaseSettings):
    """Listener settings, e.g. SLACKWATER_HTTP_PORT. Without a port: the default one, or a free one
    if it is taken.
    """

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_HTTP_", frozen=True, populate_by_name=True)

    host: str = "127.0.0.1"
    port: int | None = None
    """0 selects any free port."""
    token: SecretStr | None = None
    """A single token; its bearer is admin."""
    tokens_file: Path | None = Field(
        default=None, validation_alias=AliasChoices("SLACKWATER_TOKENS_FILE", "SLACKWATER_HTTP_TOKENS_FILE")
    )
    """File of several tokens with names and roles: see runtime.tokens."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    """If set, every client must present a certificate signed by one of these authorities (mTLS)."""
    connections: int = Field(default=512, ge=8)
    """Most open connections of one listener; at most a quarter of the process's descriptors (RLIMIT_NOFILE)."""
    header_seconds: float = Field(default=10.0, gt=0)
    """Time for a TLS handshake, and for the whole of a request's headers."""
    body_seconds: float = Field(default=60.0, gt=0)
    """Time for the whole of a request's body."""
    idle_seconds: int = Field(default=10, ge=1)
    """Time after which a connection without a further request is closed."""

    @classmethod
    def local(cls) -> HttpSettings:
        """Returns settings for an application used only by this process, ignoring the
        environment.
        """
        return cls(host="127.0.0.1", port=0, token=None, tokens_file=None)

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def tls(self) -> bool:
        return self.tls_certificate is not None and self.tls_key is not None

    @property
    def wants_tls(self) -> bool:
        """Returns whether any TLS setting is set; an incomplete set is an error, not plaintext."""
        return not self.tls_certificate is self.tls_key is self.tls_client_ca is None

    @property
    def asks_for_token(self) -> bool:
        return self.token is not None or self.tokens_file is not None

    def refuse_if_open_to_all(self) -> None:
        """Raises Misconfigured when the network could use this listener without authentication."""
        if not self.loopback and not self.asks_for_token and not self.tls:
            raise Misconfigured(
                f"will not listen on {self.host} without protection: set SLACKWATER_TOKENS_FILE or "
                "SLACKWATER_HTTP_TOKEN, or SLACKWATER_HTTP_TLS_CERTIFICATE and SLACKWATER_HTTP_TLS_KEY, "
                "or listen on 127.0.0.1",
                field="host",
            )


class ResourceSettings(BaseSettings):
    """Where documents of resource kinds are changed, e.g. SLACKWATER_RESOURCES_SOURCE."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_RESOURCES_", frozen=True)

    source: Literal["database", "kubernetes"] = "database"
    """`kubernetes`: custom resources of a cluster are the documents; only the service kubernetes may change them by the
    API, which signs in with the token of this name."""


class RpcSettings(BaseSettings):
    """gRPC settings, e.g. SLACKWATER_GRPC_PORT. Tokens and TLS files are those of HTTP.

    It runs where a service offers RPCs. Without a host: HTTP's. Without a port: the default one, or
    a free one if it is taken.
    """

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_GRPC_", frozen=True)

    enabled: bool = True
    host: str | None = None
    port: int | None = None
    """0 selects any free port."""

    def doors(self, http: HttpSettings) -> HttpSettings:
        """Returns HTTP's authentication and encryption settings with gRPC's address."""
        return http if self.host is None else http.model_copy(update={"host": self.host})


def explained(error: ValidationError, settings: type[BaseSettings]) -> str:
    """Returns which variables have invalid values, and why."""
    prefix = settings.model_config.get("env_prefix", "")
    names = (f"{prefix}{'_'.join(map(str, item['loc']))}".upper() for item in error.errors())
    return "; ".join(f"{name}: {item['msg']}" for name, item in zip(names, error.errors(), strict=True))
