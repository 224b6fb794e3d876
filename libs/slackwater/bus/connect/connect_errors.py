"""Explains why no connection to the broker was established, with what to check."""

from __future__ import annotations

import ssl

from nats.errors import SecureConnRequiredError

_LOGIN = "authorization violation"


class ConnectErrors:
    """Collects the errors of connection attempts; the client itself reports only the timeout."""

    def __init__(self) -> None:
        self._last: Exception | None = None
        self._telling: str | None = None

    def note(self, error: Exception) -> None:
        """Record the error of one attempt. A refusal is kept over the disconnect that follows it,
        because it says more.
        """
        self._last = error
        self._telling = _words(error) or self._telling

    def why(self, error: BaseException) -> str:
        """Returns the reason; `error` is the client's final error, preceded by a known cause."""
        return self._telling or repr(self._last or error)


def _words(error: Exception) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message.rstrip('.')}); SLACKWATER_NATS_CA must hold its "
            "authority, and the URL's host must be a name in the certificate"
        )
    if isinstance(error, ssl.SSLError):
        return (
            f"TLS failed ({error.reason}); if it asks for certificates, set SLACKWATER_NATS_CERTIFICATE and "
            "SLACKWATER_NATS_KEY to one that its client authority has signed"
        )
    if isinstance(error, SecureConnRequiredError):
        return "the broker has no TLS, and the URL requires it (tls://)"
    if _LOGIN in str(error).lower():
        return (
            "it refuses the login; see SLACKWATER_NATS_CREDENTIALS_FILE, and whether the broker has read its newest "
            "configuration"
        )
    return None
