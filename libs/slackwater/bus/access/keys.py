"""Ed25519 keys in the text form of NATS (nkeys): base32 of prefix, 32 bytes and a checksum.

The library `nkeys` has no wheel, and the images install wheels only.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass
from enum import IntEnum

from nacl.signing import SigningKey

from slackwater.model.errors import Misconfigured

KEY_BYTES = 32
_SEED = 18 << 3


class KeyKind(IntEnum):
    """What a key signs for: the first letter of its public form."""

    OPERATOR = 14 << 3
    ACCOUNT = 0
    USER = 20 << 3


@dataclass(frozen=True, slots=True, repr=False)
class NatsKey:
    """A private key and its kind."""

    kind: KeyKind
    raw: bytes

    @classmethod
    def generate(cls, kind: KeyKind) -> NatsKey:
        return cls(kind, secrets.token_bytes(KEY_BYTES))

    @classmethod
    def parse(cls, seed: str) -> NatsKey:
        """Returns the key of a seed. Raises Misconfigured; the message never contains it."""
        content = _decoded(seed)
        if len(content) != KEY_BYTES + 2 or content[0] & 0b1111_1000 != _SEED:
            raise Misconfigured("this is no seed of a NATS key", field="seed")
        kind = (content[0] & 0b111) << 5 | content[1] >> 3
        try:
            return cls(KeyKind(kind), content[2:])
        except ValueError:
            raise Misconfigured("this is the seed of a NATS key of another kind", field="seed") from None

    def derive(self, kind: KeyKind, label: str) -> NatsKey:
        """Returns the key that belongs to this one and the label: always the same."""
        return NatsKey(kind, hashlib.blake2b(label.encode(), key=self.raw, digest_size=KEY_BYTES).digest())

    @property
    def public(self) -> str:
        """Returns the public key, which names an account or user."""
        return _encoded(bytes([self.kind]) + bytes(SigningKey(self.raw).verify_key))

    @property
    def seed(self) -> str:
        """Returns the private key as text."""
        return _encoded(bytes([_SEED | self.kind >> 5, (self.kind & 0b1_1111) << 3]) + self.raw)

    def sign(self, content: bytes) -> bytes:
        return SigningKey(self.raw).sign(content).signature


def is_public_key(text: str, kind: KeyKind) -> bool:
    """Returns whether a text is a public key of this kind."""
    try:
        content = _decoded(text)
    except Misconfigured:
        return False
    return len(content) == KEY_BYTES + 1 and content[0] == kind


def _encoded(content: bytes) -> str:
    return base64.b32encode(content + _checksum(content)).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        content = base64.b32decode(text.strip() + "=" * (-len(text.strip()) % 8))
    except ValueError:  # binascii.Error is one; what is not ASCII another
        content = b""
    if len(content) < KEY_BYTES or content[-2:] != _checksum(content[:-2]):
        raise Misconfigured("this is no NATS key: its checksum is wrong", field="seed")
    return content[:-2]


def _checksum(content: bytes) -> bytes:
    return binascii.crc_hqx(content, 0).to_bytes(2, "little")  # CRC-16/XMODEM
