"""Whether a caller is let in, alike for HTTP and gRPC: from the credentials that were shown to a principal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.model.errors import SlackwaterError
from slackwater.runtime.roles import CERTIFIED, EVERYBODY, OPEN, STRANGER, Needed, Principal, Role
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.tokens import Token, TokensFile, digest_of, whose


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
        self._without = _without_token(settings)

    @property
    def asks_for_token(self) -> bool:
        return bool(self._single) or self._file is not None

    def holder(self, shown: str) -> Principal | None:
        """Who shows this token; None if it is nobody's."""
        return whose(shown, self._single + (self._file.tokens() if self._file else ()))

    def authenticate(self, headers: Mapping[str, str]) -> Principal | None:
        """From headers or gRPC metadata with lower-case names: who calls; None if that was not proven."""
        if not self.asks_for_token:
            return self._without
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        return self.holder(credentials.strip() if scheme.lower() == "bearer" else "")


def _without_token(settings: HttpSettings) -> Principal:
    if settings.tls_client_ca is not None:
        return CERTIFIED
    return EVERYBODY if settings.loopback else STRANGER


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
