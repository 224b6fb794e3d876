"""Addresses that hold a password: from an option, the environment, or the only line of a file."""

from __future__ import annotations

import os
from pathlib import Path

from slackwater.model.errors import InvalidInput, NotFound
from slackwater.runtime.embedded_postgres import dsn_of
from slackwater.runtime.state import StateDir, default_state_dir

POSTGRES_VARIABLE = "SLACKWATER_POSTGRES_DSN"
NATS_VARIABLE = "SLACKWATER_NATS_URL"


def address(given: str | None, option: str, variable: str) -> str:
    """The given address, or the one in the file that `<variable>_FILE` names.

    Raises: InvalidInput that names what to set. The message never repeats an address, because it may hold a password.
    """
    if given:
        return given
    named = os.environ.get(f"{variable}_FILE")
    if not named:
        raise InvalidInput(
            f"{option}: no address; give it, or set {variable} or {variable}_FILE", field=option.lstrip("-")
        )
    try:
        text = Path(named).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{variable}_FILE: {named}: {error}", field=option.lstrip("-")) from None
    if not text:
        raise InvalidInput(
            f"{variable}_FILE: {named} is empty; write the address as its only line", field=option.lstrip("-")
        )
    return text


def addresses_or_here(postgres: str | None, nats: str | None) -> tuple[str, str]:
    """The addresses of PostgreSQL and NATS: the given ones, else those of the instance that runs in this state
    directory.

    Raises: InvalidInput if only one is given, or if none is given and no instance runs here.
    """
    named = (POSTGRES_VARIABLE, NATS_VARIABLE)
    if postgres or nats or any(os.environ.get(f"{variable}_FILE") for variable in named):
        return address(postgres, "--postgres", POSTGRES_VARIABLE), address(nats, "--nats", NATS_VARIABLE)
    state_dir = default_state_dir()
    try:
        endpoint, dsn = StateDir(state_dir).running_endpoint(), dsn_of(state_dir)
    except NotFound:
        dsn = None
    if dsn is None:
        problem = f"--postgres: no address; give it, or set {POSTGRES_VARIABLE} or {POSTGRES_VARIABLE}_FILE"
        raise InvalidInput(f"{problem}; no `slackwater up` runs in {state_dir}: start it", field="postgres")
    return dsn, endpoint.nats_url
