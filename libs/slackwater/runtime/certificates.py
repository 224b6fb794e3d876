"""TLS of a server: a context that reloads certificate files while it runs."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Protocol

from slackwater.model.errors import Misconfigured
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
CERTIFICATE = "slackwater.certificate"
"""Key in a request's scope: the common name of the client's certificate; absent without one."""


def common_name(tls: ssl.SSLObject) -> str | None:
    """Returns the common name of the peer's verified certificate; None without one, or unless it
    has exactly one.
    """
    subject = (tls.getpeercert() or {}).get("subject", ())
    names = [pair[1] for part in subject for pair in part if pair[0] == "commonName"]
    return str(names[0]) if len(names) == 1 else None


class CertificateFiles:
    """Certificate, key and client CA of a listener; the files may be replaced at any time."""

    def __init__(self, settings: HttpSettings) -> None:
        """Raises Misconfigured if certificate or key is not set."""
        if settings.tls_certificate is None or settings.tls_key is None:
            raise Misconfigured("set both SLACKWATER_HTTP_TLS_CERTIFICATE and SLACKWATER_HTTP_TLS_KEY", field="tls")
        self.certificate, self.key, self.client_ca = (
            settings.tls_certificate,
            settings.tls_key,
            settings.tls_client_ca,
        )

    def load(self, context: ssl.SSLContext) -> None:
        """Load the files into a context. Raises Misconfigured if one cannot be read, or they do not
        match.
        """
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:
            raise Misconfigured(f"TLS: {self.certificate}, {self.key} or the client CA: {error}", field="tls") from None

    def try_out(self) -> None:
        """Raises Misconfigured if one cannot be read, or they do not match."""
        self.load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))

    def version(self) -> tuple[int, ...]:
        """Returns a value that changes whenever a file changes."""
        return tuple(_changed_at(file) for file in (self.certificate, self.key, self.client_ca) if file is not None)


class Tls(Protocol):
    """What a listener needs: `refresh` is called every few seconds."""

    @property
    def context(self) -> ssl.SSLContext: ...

    def refresh(self) -> None: ...


class PemTls:
    """A TLS context of a certificate that is no file. `use` may be called while the listener runs:
    open connections keep their certificate, new ones get the newest.
    """

    def __init__(self) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def use(self, certificate: str, key: str) -> None:
        """Load texts in PEM. Raises Misconfigured if they do not match; then the former stay."""
        with tempfile.TemporaryDirectory() as folder:  # the ssl module reads files only
            files = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            for file, text in zip(files, (certificate, key), strict=True):
                file.write_text(text, encoding="ascii")
            try:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*files)
                self.context.load_cert_chain(*files)
            except OSError as error:
                raise Misconfigured(f"TLS: the certificate cannot be used: {error}", field="tls") from None

    def refresh(self) -> None:
        """Nothing: `use` is called for a new certificate."""


class ServerTls:
    """The TLS context of a listener. Open connections keep their certificate, new ones get the
    newest.
    """

    def __init__(self, settings: HttpSettings) -> None:
        """Raises Misconfigured if certificate, key or client CA are missing or do not match."""
        self._files = CertificateFiles(settings)
        self._version = self._files.version()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._files.load(self.context)

    def refresh(self) -> None:
        """Load changed files; unusable files leave the context unchanged."""
        present = self._files.version()
        if present == self._version:
            return
        self._version = present
        try:
            self._files.try_out()
            self._files.load(self.context)
        except Misconfigured as error:
            log.error("certificate cannot be used, keeping the previous one", error=error.message)
        else:
            log.info("certificate read again", file=str(self._files.certificate))


def _changed_at(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
