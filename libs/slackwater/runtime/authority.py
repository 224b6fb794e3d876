"""A certificate authority for one deployment, made with openssl."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slackwater.model.errors import InvalidInput, Misconfigured

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 825
DAY_SECONDS = 86_400
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")


class Authority:
    """Key and certificate in a folder of their own, created at the first use. Raises Misconfigured without openssl."""

    def __init__(self, folder: Path, days: int = AUTHORITY_DAYS) -> None:
        self._key = folder / "ca.key"
        self._certificate = folder / "ca.crt"
        if not self._certificate.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _openssl(
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-sha256",
                "-days", str(days), "-subj", "/CN=slackwater authority",
                "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                "-keyout", str(self._key), "-out", str(self._certificate),
            )  # fmt: skip

    @property
    def certificate(self) -> str:
        """The public certificate of the authority."""
        return self._certificate.read_text(encoding="ascii")

    def issue(self, certificate: Path, key: Path, hosts: Sequence[str], days: int = CERTIFICATE_DAYS) -> None:
        """Write a certificate for a server with these host names, which may also dial others like it.

        Raises InvalidInput for an invalid host name.
        """
        for host in hosts:
            if not host or not set(host) <= _NAME_LETTERS:
                raise InvalidInput(f"host: {host!r} is not a host name; allowed: a-z, 0-9, dots, dashes", field="host")
        names = ",".join(f"DNS:{host}" for host in hosts)
        with tempfile.TemporaryDirectory() as scratch:
            request, extensions = Path(scratch) / "request", Path(scratch) / "extensions"
            extensions.write_text(
                f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\nkeyUsage=critical,digitalSignature\n"
                "basicConstraints=critical,CA:FALSE\n"
            )
            _openssl(
                "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-sha256",
                "-subj", f"/CN={hosts[0]}", "-keyout", str(key), "-out", str(request),
            )  # fmt: skip
            _openssl(
                "x509", "-req", "-in", str(request), "-CA", str(self._certificate), "-CAkey", str(self._key),
                "-sha256", "-days", str(days), "-extfile", str(extensions), "-out", str(certificate),
            )  # fmt: skip

    def is_due(self, certificate: Path, hosts: Sequence[str]) -> bool:
        """Whether a certificate is to be issued anew: a third of its time is left, or it lacks one of these hosts."""
        named = [_openssl("x509", "-in", str(certificate), "-noout", "-checkhost", host) for host in hosts]
        seconds = CERTIFICATE_DAYS * DAY_SECONDS // 3
        return any("does match" not in answer for answer in named) or not _holds(certificate, seconds)


def _holds(certificate: Path, seconds: int) -> bool:
    """Whether a certificate is still valid after so long."""
    answer = _openssl("x509", "-in", str(certificate), "-noout", "-checkend", str(seconds), allowed=(0, 1))
    return "will not expire" in answer


def _openssl(*arguments: str, allowed: Sequence[int] = (0,)) -> str:
    """What openssl prints. Raises Misconfigured if it is not installed, or ends with a status that is not allowed."""
    tool = shutil.which("openssl")
    if tool is None:
        raise Misconfigured("openssl is not installed; install it, because it creates the certificates")
    done = subprocess.run([tool, *arguments], check=False, capture_output=True, text=True)
    if done.returncode not in allowed:
        raise Misconfigured(f"openssl {arguments[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout
