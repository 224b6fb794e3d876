"""Why there is no connection to the broker, in words that say what to look at."""

from __future__ import annotations

import ssl

from nats.errors import SecureConnRequiredError

_LOGIN = "authorization violation"


class Refusals:
    """What went wrong while a client tried to connect: each attempt has an error, and the client tells only that time
    is up."""

    def __init__(self) -> None:
        self._last: Exception | None = None
        self._telling: str | None = None

    def note(self, error: Exception) -> None:
        """One attempt has failed. After a refusal the broker hangs up, which tells less than the refusal did."""
        self._last = error
        self._telling = _words(error) or self._telling

    def why(self, error: BaseException) -> str:
        """`error` is what the client ended with; known causes are named before it."""
        return self._telling or repr(self._last or error)


def _words(error: Exception) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not believed ({error.verify_message.rstrip('.')}); SLACKWATER_NATS_CA must hold its "
            "authority, and the URL a name that the certificate has"
        )
    if isinstance(error, ssl.SSLError):
        return (
            f"TLS failed ({error.reason}); if it asks for certificates, set SLACKWATER_NATS_CERTIFICATE and "
            "SLACKWATER_NATS_KEY to one that its client authority has signed"
        )
    if isinstance(error, SecureConnRequiredError):
        return "it speaks no TLS, and the URL asks for it (tls://)"
    if _LOGIN in str(error).lower():
        return (
            "it refuses the login; see SLACKWATER_NATS_USER and SLACKWATER_NATS_PASSWORD_FILE, and whether the broker "
            "has read its newest configuration"
        )
    return None
