"""The version of the running software."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """Returns the version of the installed distribution, or `0+unknown` when run from bare
    sources.
    """
    from importlib import metadata  # takes 15 ms, and most commands do not need it

    try:
        return metadata.version("slackwater")
    except metadata.PackageNotFoundError:
        return "0+unknown"
