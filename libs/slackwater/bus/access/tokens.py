"""NATS JWTs: signed claims of operators, accounts and users, and the credentials file of a user."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.bus.access.keys import NatsKey
from slackwater.model.errors import Misconfigured

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_PART = re.compile(r"-----BEGIN [A-Z ]+-----\s+(\S+)\s+-+END [A-Z ]+-+")
Claims = Mapping[str, Any]


def signed(signer: NatsKey, subject: str, name: str, claims: Claims, issued_at: int, expires_at: int = 0) -> str:
    """Returns the token with these claims of `subject`, a public key. Times are in seconds; 0: it does not expire."""
    body: dict[str, Any] = {"iat": issued_at, "iss": signer.public, "sub": subject, "name": name, "nats": claims}
    if expires_at:
        body["exp"] = expires_at
    digest = hashlib.sha256(_json(body)).digest()
    body["jti"] = base64.b32encode(digest).decode().rstrip("=")
    content = f"{_base64(_json(_HEADER))}.{_base64(_json(body))}"
    return f"{content}.{_base64(signer.sign(content.encode()))}"


def claims_of(token: str) -> dict[str, Any]:
    """Returns the claims of a token, unverified. Raises Misconfigured."""
    try:
        _, body, _ = token.split(".")
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if not isinstance(claims, dict) or not {"iat", "iss", "sub", "name", "nats"} <= claims.keys():
            raise ValueError
    except (ValueError, binascii.Error):
        raise Misconfigured("this is no NATS token", field="credentials_file") from None
    return claims


def is_signed_by(signer: NatsKey, token: str) -> bool:
    """Returns whether the holder of this private key signed the token: a signature of Ed25519 is always the same."""
    content, _, signature = token.rpartition(".")
    return hmac.compare_digest(signature.encode(), _base64(signer.sign(content.encode())).encode())


@dataclass(frozen=True, slots=True, repr=False)
class UserCredentials:
    """The token of a user and the key that proves it."""

    token: str
    key: NatsKey

    @classmethod
    def parse(cls, text: str) -> UserCredentials:
        """Returns those in the text of a credentials file, as `nsc` and `nats` write it. Raises Misconfigured."""
        parts = _PART.findall(text)
        if len(parts) != 2:
            raise Misconfigured("this is no credentials file of NATS", field="credentials_file")
        credentials = cls(parts[0], NatsKey.parse(parts[1]))
        if claims_of(credentials.token)["sub"] != credentials.key.public:
            raise Misconfigured("its token is of another key", field="credentials_file")
        return credentials

    @property
    def text(self) -> str:
        """Returns the credentials file."""
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.key.seed}\n------END USER NKEY SEED------\n"
        )

    @property
    def name(self) -> str:
        return str(claims_of(self.token)["name"])

    @property
    def signer(self) -> str:
        """Returns the public key that signed the token."""
        return str(claims_of(self.token)["iss"])

    @property
    def issued_at(self) -> int:
        return int(claims_of(self.token)["iat"])

    @property
    def expires_at(self) -> int | None:
        """Returns when the token expires, in seconds; None: never."""
        return claims_of(self.token).get("exp")

    def answer(self, nonce: str) -> bytes:
        """Returns the signature that a broker asks for."""
        return _base64(self.key.sign(nonce.encode())).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
