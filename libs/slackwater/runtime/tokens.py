"""Named tokens with roles from a file, one per line, reloaded when the file changes.

    # name    role       the token itself, or sha256: and the hex digest of it
    alice     operator   Xb0z0m2Nq8f1VfJ3Yd5w
    grafana   viewer     sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    robot     operator   certificate

A name may have several lines of one role, so that both tokens work during a replacement. With `certificate`, a client
whose certificate is signed by the client CA and has this common name needs no token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from slackwater.model.errors import Misconfigured
from slackwater.runtime.roles import Principal, Role
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
SHORTEST = 16
"""Minimum length of a token in characters; a shorter one can be guessed."""
_DIGEST = "sha256:"
_CERTIFICATE = "certificate"
_HEX = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,252}")


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token, as a digest only. Without a digest, a client certificate with this name
    replaces it.
    """

    principal: Principal
    digest: bytes | None


def digest_of(token: str) -> bytes:
    """Returns the SHA-256 digest. Tokens are long and random, so one round of a plain hash is
    sufficient.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def whose(shown: str, tokens: tuple[Token, ...]) -> Principal | None:
    """Returns the holder of a token. Compares with every token, whether or not one already
    matched.
    """
    digest = digest_of(shown)
    principal: Principal | None = None
    for token in tokens:
        if token.digest is not None and hmac.compare_digest(token.digest, digest):
            principal = token.principal
    return principal


def certified(name: str, tokens: tuple[Token, ...]) -> Principal | None:
    """Returns the principal of a certificate's common name, if an entry defines it."""
    principals = (token.principal for token in tokens if token.digest is None and token.principal.name == name)
    return next(principals, None)


def valid_name(text: str) -> bool:
    """Returns whether the text may name a principal in records and logs."""
    return _NAME.fullmatch(text) is not None


def parse_tokens(text: str, where: str) -> tuple[Token, ...]:
    """Returns the tokens of a file. Raises Misconfigured naming the line; no message contains a
    token.
    """
    entries: dict[bytes | str, Token] = {}
    roles: dict[str, Role] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        place = f"{where}, line {number}"
        if len(words) != 3:
            raise Misconfigured(f"{place}: has {len(words)} words; write: NAME ROLE TOKEN", field="tokens_file")
        principal = Principal(_name(words[0], place), _role(words[1], place))
        token = Token(principal, None if words[2] == _CERTIFICATE else _digest(words[2], place))
        key = principal.name if token.digest is None else token.digest
        if token.digest is not None and key in entries:
            raise Misconfigured(f"{place}: this token is already in use; make a new one", field="tokens_file")
        if roles.setdefault(principal.name, principal.role) is not principal.role:
            raise Misconfigured(f"{place}: {principal.name} already has another role", field="tokens_file")
        entries[key] = token
    return tuple(entries.values())


class TokensFile:
    """The tokens of one file. A change applies from the next call on; an unusable file changes
    nothing.
    """

    def __init__(self, path: Path) -> None:
        """Raises Misconfigured if the file cannot be used."""
        self._path = path
        self._version = _version_of(path)
        self._tokens = read_tokens(path)

    def tokens(self) -> tuple[Token, ...]:
        version = _version_of(self._path)
        if version != self._version:
            self._version = version
            try:
                self._tokens = read_tokens(self._path)
            except Misconfigured as error:
                log.error("tokens file cannot be used, keeping the previous tokens", error=error.message)
            else:
                log.info("tokens read again", file=str(self._path), tokens=len(self._tokens))
        return self._tokens


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Returns the tokens. Raises Misconfigured if the file is missing, invalid, writable by others,
    or readable by others while it has secrets.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise Misconfigured(f"{path}: cannot be read: {reason}", field="tokens_file") from None
    tokens = parse_tokens(text, str(path))
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Misconfigured(f"{path}: others may write it; chmod go-w {path}", field="tokens_file")
    if mode & stat.S_IROTH and _has_secrets(text):
        raise Misconfigured(
            f"{path}: its tokens are readable by all users; chmod o-r {path}, or keep only digests in it",
            field="tokens_file",
        )
    return tokens


def _version_of(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _has_secrets(text: str) -> bool:
    lines = [line.split() for line in text.splitlines()]
    words = [line[2] for line in lines if line and not line[0].startswith("#")]
    return any(word != _CERTIFICATE and not word.startswith(_DIGEST) for word in words)


def _name(text: str, place: str) -> str:
    if not valid_name(text):
        raise Misconfigured(f"{place}: the name may have letters, digits and . _ @ - in it", field="tokens_file")
    return text


def _role(text: str, place: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        allowed = ", ".join(Role)
        raise Misconfigured(f"{place}: the role (second word) must be one of {allowed}", field="tokens_file") from None


def _digest(text: str, place: str) -> bytes:
    if text.startswith(_DIGEST):
        digits = text.removeprefix(_DIGEST)
        if not _HEX.fullmatch(digits):
            raise Misconfigured(f"{place}: sha256: needs 64 lower-case hex digits behind it", field="tokens_file")
        return bytes.fromhex(digits)
    if len(text) < SHORTEST:
        raise Misconfigured(
            f"{place}: the token has fewer than {SHORTEST} characters; make one: openssl rand -hex 24",
            field="tokens_file",
        )
    return digest_of(text)
