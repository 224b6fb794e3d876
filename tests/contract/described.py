"""The description of the API, made once for the tests of a process: it takes a second and a half."""

from __future__ import annotations

from functools import cache
from typing import Any

from slackwater.cli.openapi import document


@cache
def described() -> dict[str, Any]:
    """To be read only."""
    return document()
