"""Whether a caller is let in, alike for HTTP and gRPC: from the credentials that were shown to a principal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.model.errors import SlackwaterError
from slackwater.runtime.roles import CERTIFIED, EVERYBODY, OPEN, STRANGER, Needed, Principal, Role
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.tokens import Token, TokensFile, certified, digest_of, valid_name, whose


class Unauthorized(SlackwaterError):
    """Nobody was recognised: HTTP 401, gRPC UNAUTHENTICATED."""

    code = "unauthorized"


class Forbidden(SlackwaterError):
    """Somebody was recognised whose role does not reach: HTTP 403, gRPC PERMISSION_DENIED."""

    code = "forbidden"


class Gate:
    """Knows the tokens of this process. Thread-safe: it only reads."""

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
        """Who shows this token; None if it is nobody's."""
        return whose(shown, self._single + self._named())

    def authenticate(self, headers: Mapping[str, str], certificate: str | None = None) -> Principal | None:
        """From headers or gRPC metadata with lower-case names, and the common name of the certificate that the
        connection was made with, if the client CA vouched for one: who calls; None if that was not proven.

        A token that is shown counts alone: a wrong one is nobody's, whatever certificate came with it.
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
    """Who has a certificate and no line in any file: it proves a name, and no right but to read."""
    return Principal(certificate, Role.VIEWER) if certificate and valid_name(certificate) else CERTIFIED


def admit(needed: Needed, principal: Principal | None) -> None:
    """Raises Unauthorized for nobody, Forbidden for a role that does not reach; both say what would."""
    if needed == OPEN:
        return
    if principal is None:
        raise Unauthorized("send the header `Authorization: Bearer TOKEN`")
    if not principal.role.allows(needed):
        raise Forbidden(f"needs the role {needed}, {principal.name} has the role {principal.role}")


class RpcRoles:
    """What each RPC (`/package.Service/Method`) needs. What is not listed is nobody's."""

    def __init__(self, needed: Mapping[str, Needed]) -> None:
        self._needed = dict(needed)

    def required_role(self, method: str) -> Needed:
        """Raises Forbidden for a method that no one gave a role: a new RPC is closed until somebody thinks of it."""
        try:
            return self._needed[method]
        except KeyError:
            raise Forbidden(f"{method} has no required role, so nobody may call it") from None

    def missing(self, methods: Iterable[str]) -> list[str]:
        """Of `methods` those without a role, sorted; a server must not start with any."""
        return sorted(set(methods) - set(self._needed))
