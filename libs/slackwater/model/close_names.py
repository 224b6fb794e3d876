"""The known name that a mistyped one resembles, for messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LONGEST_NAME: Final = 100
"""A longer text is no mistyped name. To compare one takes 40 times its length in memory."""


def closest(name: str, known: Iterable[str]) -> str:
    """Returns the known name that `name` resembles, without regard to case; empty if none does."""
    if len(name) > LONGEST_NAME:
        return ""
    lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), lower, n=1)
    return lower[close[0]] if close else ""
