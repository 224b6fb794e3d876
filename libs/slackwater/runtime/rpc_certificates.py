"""TLS of gRPC: the certificate is looked up at every handshake, so that new files apply without a
restart.
"""

from __future__ import annotations

import threading

import grpc

from slackwater.model.errors import Misconfigured
from slackwater.runtime.certificates import CertificateFiles
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


def credentials_of(doors: HttpSettings) -> grpc.ServerCredentials:
    """Returns TLS credentials, with mTLS if there is a client CA. Raises Misconfigured for unusable
    files.
    """
    shown = _Shown(CertificateFiles(doors))
    return grpc.dynamic_ssl_server_credentials(
        shown.first,
        shown.newer,  # type: ignore[arg-type]  # None is "as before" to grpc; its stubs do not know
        require_client_authentication=doors.tls_client_ca is not None,
    )


class _Shown:
    """The certificate for new connections. grpc threads call it concurrently."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._looking = threading.Lock()
        self._version = files.version()
        self.first = self._read()

    def newer(self) -> grpc.ServerCertificateConfiguration | None:
        """Returns the new configuration; None without a change or for unusable files. Raises
        nothing, because grpc would refuse the connection.
        """
        with self._looking:
            present = self._files.version()
            if present == self._version:
                return None
            self._version = present
            try:
                certificate = self._read()
            except Misconfigured as error:
                log.error("certificate cannot be used, keeping the previous one", error=error.message)
                return None
            log.info("certificate read again", file=str(self._files.certificate))
            return certificate

    def _read(self) -> grpc.ServerCertificateConfiguration:
        files = self._files
        files.try_out()
        try:
            key, certificate = files.key.read_bytes(), files.certificate.read_bytes()
            authorities = None if files.client_ca is None else files.client_ca.read_bytes()
        except OSError as error:  # replaced since it was validated
            raise Misconfigured(f"TLS: {error.filename}: {error.strerror}", field="tls") from None
        return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authorities)
