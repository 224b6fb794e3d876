"""Settings of the process itself; a service's own are in its `settings.py`."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.model.errors import Misconfigured
from slackwater.runtime.loopback import is_loopback

USUAL_PORT = 8460
USUAL_RPC_PORT = 8461


class HttpSettings(BaseSettings):
    """Where this process listens, e.g. SLACKWATER_HTTP_PORT. Without a port: the usual one, or a free one if taken."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_HTTP_", frozen=True, populate_by_name=True)

    host: str = "127.0.0.1"
    port: int | None = None
    """0 takes any free port."""
    token: SecretStr | None = None
    """One token, whose bearer is admin."""
    tokens_file: Path | None = Field(
        default=None, validation_alias=AliasChoices("SLACKWATER_TOKENS_FILE", "SLACKWATER_HTTP_TOKENS_FILE")
    )
    """Several, with names and roles: see runtime.tokens."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    """If given, every client must show a certificate that one of these authorities signed (mTLS)."""

    @classmethod
    def local(cls) -> HttpSettings:
        """For an application that only this process asks, whatever the environment says."""
        return cls(host="127.0.0.1", port=0, token=None, tokens_file=None)

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def tls(self) -> bool:
        return self.tls_certificate is not None and self.tls_key is not None

    @property
    def wants_tls(self) -> bool:
        """Whether anything of TLS is set; half of it is an error, not plaintext."""
        return not self.tls_certificate is self.tls_key is self.tls_client_ca is None

    @property
    def asks_for_token(self) -> bool:
        return self.token is not None or self.tokens_file is not None

    def refuse_if_open_to_all(self) -> None:
        """Raises Misconfigured when others on the network could use this without proving anything."""
        if not self.loopback and not self.asks_for_token and not self.tls:
            raise Misconfigured(
                f"will not listen on {self.host} without protection: set SLACKWATER_TOKENS_FILE or "
                "SLACKWATER_HTTP_TOKEN, or SLACKWATER_HTTP_TLS_CERTIFICATE and SLACKWATER_HTTP_TLS_KEY, "
                "or listen on 127.0.0.1",
                field="host",
            )


class RpcSettings(BaseSettings):
    """gRPC beside HTTP, e.g. SLACKWATER_GRPC_PORT. Tokens and TLS files are those of HTTP.

    It runs where a service has something to say over it. Without a host: where HTTP listens. Without a port: the
    usual one, or a free one if taken.
    """

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_GRPC_", frozen=True)

    enabled: bool = True
    host: str | None = None
    port: int | None = None
    """0 takes any free port."""

    def doors(self, http: HttpSettings) -> HttpSettings:
        """Who is let in and how it is encrypted: as for HTTP, but where gRPC listens."""
        return http if self.host is None else http.model_copy(update={"host": self.host})


def explained(error: ValidationError, settings: type[BaseSettings]) -> str:
    """Which variables are not allowed as they are, and why."""
    prefix = settings.model_config.get("env_prefix", "")
    names = (f"{prefix}{'_'.join(map(str, item['loc']))}".upper() for item in error.errors())
    return "; ".join(f"{name}: {item['msg']}" for name, item in zip(names, error.errors(), strict=True))
