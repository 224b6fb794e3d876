"""The resume token of a watch: opaque to clients, equal on every replica, valid after a restart."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from slackwater.model.json_text import parse_json_text


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Everything up to `sequence` of the log's `epoch` was sent through the filter with this fingerprint."""

    epoch: str
    sequence: int
    fingerprint: str


def encode_token(point: ResumePoint) -> str:
    """An ASCII token that is safe in shells and headers."""
    text = json.dumps([1, point.epoch, point.sequence, point.fingerprint], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str) -> ResumePoint | None:
    """The point in a token; None if `encode_token` did not make it."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version, epoch, sequence, fingerprint = parse_json_text(raw)
    except (ValueError, TypeError):
        return None
    whole = isinstance(sequence, int) and not isinstance(sequence, bool) and sequence >= 0
    if version != 1 or not isinstance(epoch, str) or not isinstance(fingerprint, str) or not whole:
        return None
    return ResumePoint(epoch, sequence, fingerprint)
