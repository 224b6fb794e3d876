"""The version of what runs."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """As the installed distribution says, or `0+unknown` when run from bare sources."""
    from importlib import metadata  # costs 15 ms, and most commands never ask

    try:
        return metadata.version("slackwater")
    except metadata.PackageNotFoundError:
        return "0+unknown"
