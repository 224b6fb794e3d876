"""What the drivers raise, as the error tree of model.errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from slackwater.model.errors import Conflict, InvalidInput, Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

_AWAY = ("08", "57P", "53", "57014", "25P03", "25006", "28", "3D000")
"""Connection, shutdown and start, out of resources, statement timeout, transaction ended because we stood still; no
writes are taken (demoted, or short of room), a login is not valid any more, a database is being restored. Whatever it
is, the facts in hand are none the worse for it."""
_REFUSES = ("25006", "28", "3D000")
"""Those of them with which it does answer."""
_AGAIN = ("40",)  # serialization failure, deadlock
_UNSTORABLE = ("22", "54")
"""Data exceptions (a NUL in a text, a number out of range, an id that is no UUID) and limits of the program (a name
that is longer than an index holds)."""
_OTHER_VERSION = ("42703", "42P01", "42809")  # a column or a table is not there, or is a view now
"""Schemas move forward under replicas that are about to be replaced. What they have in hand is none the worse for it,
and waits for a replica that knows the schema."""


def _sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _said(state: str) -> str:
    return "refuses" if state.startswith(_REFUSES) else "does not answer"


def _of_another_version(found: BaseException | None) -> Unavailable:
    log.warning("the schema is not the one that this version knows", found=str(found))
    return Unavailable(f"another version of ours has changed the schema: {found}")


@contextmanager
def translated() -> Iterator[None]:
    """Raise Unavailable for a database that is away, that takes no writes or no login of ours, or that another version
    has changed, Conflict for a transaction that lost, InvalidInput for a value that PostgreSQL cannot hold; the rest is
    a defect."""
    try:
        yield
    except DBAPIError as error:
        state = _sqlstate(error.orig) if error.orig is not None else ""
        if error.connection_invalidated or state.startswith(_AWAY):
            raise Unavailable(f"PostgreSQL {_said(state)}: {error.orig}") from error
        if state.startswith(_OTHER_VERSION):
            raise _of_another_version(error.orig) from error
        if state.startswith(_AGAIN):
            raise Conflict(f"the transaction lost against another: {error.orig}") from error
        if state.startswith(_UNSTORABLE):  # waiting does not help: whoever sent the value gets it back
            raise InvalidInput(f"a value cannot be stored: {error.orig}", code="unstorable") from error
        raise
    except asyncpg.PostgresError as error:
        if _sqlstate(error).startswith(_AWAY):
            raise Unavailable(f"PostgreSQL {_said(_sqlstate(error))}: {error}") from error
        if _sqlstate(error).startswith(_OTHER_VERSION):
            raise _of_another_version(error) from error
        raise
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, ConnectionError) as error:
        # InternalClientError: the server's last word ("another server process crashed") was read, its EOF not yet
        raise Unavailable(f"PostgreSQL does not answer: {error}") from error


@contextmanager
def connecting() -> Iterator[None]:
    """As `translated`, and every failure of the network or of a timeout is Unavailable: only around our own calls."""
    try:
        with translated():
            yield
    except (PoolTimeout, OSError, TimeoutError) as error:
        raise Unavailable(f"PostgreSQL cannot be reached: {str(error) or type(error).__name__}") from error
