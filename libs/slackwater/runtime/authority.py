"""A certificate authority for one deployment. It takes 20 MB and 0.4 s to import: only its users' functions do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.runtime.owned_files import PRIVATE_FILE

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 825
RENEW_BEFORE = timedelta(days=CERTIFICATE_DAYS) / 3
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
_SIGNS = {"key_cert_sign", "crl_sign"}
_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class Authority:
    """Key and certificate in a folder of their own, created at the first use. The key is read only to issue,
    so that it may be stored elsewhere. Raises Misconfigured if the certificate cannot be read."""

    def __init__(self, folder: Path, days: int = AUTHORITY_DAYS) -> None:
        self._certificate_file = folder / "ca.crt"
        self._key_file = folder / "ca.key"
        if not self._certificate_file.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            key = ec.generate_private_key(ec.SECP256R1())
            name = _name("slackwater authority")
            builder = _builder(name, name, key, days, signs=_SIGNS)
            _write_key(self._key_file, key)
            _write_certificate(self._certificate_file, builder.sign(key, hashes.SHA256()))
        self._certificate = _read_certificate(self._certificate_file)

    @property
    def certificate(self) -> str:
        """The public certificate of the authority."""
        return self._certificate_file.read_text(encoding="ascii")

    def issue(self, certificate: Path, key: Path, hosts: Sequence[str], days: int = CERTIFICATE_DAYS) -> None:
        """Write a certificate for a server with these host names, which may also dial others like it.

        Raises InvalidInput for an invalid host name, Misconfigured without the key.
        """
        for host in hosts:
            if not host or not set(host) <= _NAME_LETTERS:
                raise InvalidInput(f"host: {host!r} is not a host name; allowed: a-z, 0-9, dots, dashes", field="host")
        own = ec.generate_private_key(ec.SECP256R1())
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._certificate.public_key())  # type: ignore[arg-type]
        builder = (
            _builder(_name(hosts[0]), self._certificate.subject, own, days, signs=set())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
            .add_extension(uses, critical=False)
            .add_extension(issuer, critical=False)
        )
        _write_key(key, own)
        _write_certificate(certificate, builder.sign(_read_key(self._key_file), hashes.SHA256()))

    def is_due(self, certificate: Path, hosts: Sequence[str]) -> bool:
        """Whether a certificate is to be issued anew: a third of its time is left, or it lacks one of these hosts."""
        present = _read_certificate(certificate)
        try:
            names = present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return True
        lacking = set(hosts) - set(names.get_values_for_type(x509.DNSName))
        return bool(lacking) or present.not_valid_after_utc - datetime.now(UTC) < RENEW_BEFORE


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int, signs: set[str]
) -> x509.CertificateBuilder:
    """A certificate valid from now on. `signs` has the usages of an authority; empty: the certificate of a server."""
    now, usages = datetime.now(UTC), signs or {"digital_signature"}
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=bool(signs), path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{usage: usage in usages for usage in _USAGES}), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as out:
        out.write(text)


def _write_certificate(file: Path, certificate: x509.Certificate) -> None:
    file.write_bytes(certificate.public_bytes(Encoding.PEM))


def _read_certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{file} is no certificate: {error}") from None


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(f"{file} is no private key: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Misconfigured(f"{file} is no key on an elliptic curve")
    return key
