"""Authentication and authorization, the same for HTTP and gRPC: turns credentials into a
principal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.model.errors import SlackwaterError
from slackwater.runtime.roles import CERTIFIED, EVERYBODY, OPEN, STRANGER, Needed, Principal, Role
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.tokens import Token, TokensFile, certified, digest_of, valid_name, whose


class Unauthorized(SlackwaterError):
    """The caller is not authenticated: HTTP 401, gRPC UNAUTHENTICATED."""

    code = "unauthorized"


class Forbidden(SlackwaterError):
    """The caller's role is not sufficient: HTTP 403, gRPC PERMISSION_DENIED."""

    code = "forbidden"


class Authenticator:
    """Authenticates callers by the tokens of this process. Thread-safe: it only reads."""

    def __init__(self, settings: HttpSettings) -> None:
        """Raises Misconfigured if the tokens file cannot be used."""
        self._file = TokensFile(settings.tokens_file) if settings.tokens_file else None
        single = settings.token.get_secret_value() if settings.token else None
        self._single = (Token(Principal("token", Role.ADMIN), digest_of(single)),) if single else ()
        self._asks_for_certificate = settings.tls_client_ca is not None
        self._without = EVERYBODY if settings.loopback else STRANGER

    @property
    def asks_for_token(self) -> bool:
        return bool(self._single) or self._file is not None

    def holder(self, shown: str) -> Principal | None:
        """Returns the holder of a token; None if it is unknown."""
        return whose(shown, self._single + self._named())

    def authenticate(self, headers: Mapping[str, str], certificate: str | None = None) -> Principal | None:
        """Returns the caller; None if it is not authenticated.

        `headers` are HTTP headers or gRPC metadata with lower-case names, `certificate` is the
        common name of a certificate verified by the client CA. A token takes precedence: a wrong
        one is refused, whatever certificate came with it.
        """
        if not self.asks_for_token:
            return _viewer(certificate) if self._asks_for_certificate else self._without
        shown = headers.get("authorization")
        if shown is None:
            return self._certified(certificate)
        scheme, _, credentials = shown.partition(" ")
        return self.holder(credentials.strip() if scheme.lower() == "bearer" else "")

    def _certified(self, certificate: str | None) -> Principal | None:
        if not self._asks_for_certificate or certificate is None:
            return None
        return certified(certificate, self._named())

    def _named(self) -> tuple[Token, ...]:
        return self._file.tokens() if self._file else ()


def _viewer(certificate: str | None) -> Principal:
    """Returns the principal of a certificate without a tokens file entry: it proves a name, and
    grants only reading.
    """
    return Principal(certificate, Role.VIEWER) if certificate and valid_name(certificate) else CERTIFIED


def authenticate(needed: Needed, principal: Principal | None) -> None:
    """Raises Unauthorized without a principal, Forbidden for an insufficient role; both messages
    name the remedy.
    """
    if needed == OPEN:
        return
    if principal is None:
        raise Unauthorized("send the header `Authorization: Bearer TOKEN`")
    if not principal.role.allows(needed):
        raise Forbidden(f"needs the role {needed}, {principal.name} has the role {principal.role}")


class RpcRoles:
    """The role that each RPC (`/package.Service/Method`) requires. An unlisted RPC is refused."""

    def __init__(self, needed: Mapping[str, Needed]) -> None:
        self._needed = dict(needed)

    def required_role(self, method: str) -> Needed:
        """Returns the role of a method. Raises Forbidden for a method without one, so a new RPC is
        closed by default.
        """
        try:
            return self._needed[method]
        except KeyError:
            raise Forbidden(f"{method} has no required role and cannot be called") from None

    def missing(self, methods: Iterable[str]) -> list[str]:
        """Returns the `methods` without a role, sorted; a server must not start with any."""
        return sorted(set(methods) - set(self._needed))
