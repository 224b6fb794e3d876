"""Addresses that hold a password: given as an option, in the environment, or as the only line of a file."""

from __future__ import annotations

import os
from pathlib import Path

from slackwater.model.errors import InvalidInput

POSTGRES_VARIABLE = "SLACKWATER_POSTGRES_DSN"
NATS_VARIABLE = "SLACKWATER_NATS_URL"


def address(given: str | None, option: str, variable: str) -> str:
    """The given address, or the one in the file that `<variable>_FILE` names.

    Raises InvalidInput that says what may be set; never repeats an address, which may hold a password.
    """
    if given:
        return given
    named = os.environ.get(f"{variable}_FILE")
    if not named:
        raise InvalidInput(f"{option}: give it, or set {variable} or {variable}_FILE", field=option.lstrip("-"))
    try:
        found = Path(named).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{variable}_FILE: {named}: {error}", field=option.lstrip("-")) from None
    if not found:
        raise InvalidInput(
            f"{variable}_FILE: {named} is empty; wants one line with the address", field=option.lstrip("-")
        )
    return found
