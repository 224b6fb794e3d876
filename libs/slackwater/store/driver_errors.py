"""Translates driver exceptions to the error tree of model.errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from slackwater.model.errors import Conflict, InvalidInput, Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

_READ_ONLY = "25006"
_AWAY = ("08", "57P", "53", "57014", "25P03", _READ_ONLY, "28", "3D000")
"""SQLSTATE prefixes of an unavailable database, which say nothing about the data in hand:
connection, shutdown and start, out of resources, statement timeout, transaction ended because the
client stalled, read-only (demoted, or short of space), login no longer valid, database being
restored.
"""
_REFUSES = (_READ_ONLY, "28", "3D000")
"""The unavailable states in which the server does answer."""
_AGAIN = ("40",)  # serialization failure, deadlock
_UNSTORABLE = ("22", "54")
"""Data exceptions (a NUL in a text, a number out of range, an id that is no UUID) and program
limits (a name longer than an index entry allows).
"""
_OTHER_VERSION = ("42703", "42P01", "42809")  # a column or a table is not there, or is a view now
"""Schemas migrate forward under replicas that are about to be replaced. Their messages wait for a
replica that knows the schema.
"""


def _sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_read_only(error: BaseException) -> bool:
    """Returns whether the server refused to write because it is a standby, or short of space."""
    return _sqlstate(error) == _READ_ONLY


def _verb_of(state: str) -> str:
    return "refuses" if state.startswith(_REFUSES) else "does not answer"


def _of_another_version(error: BaseException | None) -> Unavailable:
    log.warning("the schema does not match this version", found=str(error))
    return Unavailable(f"another version of Slackwater has changed the schema: {error}")


@contextmanager
def translated() -> Iterator[None]:
    """Raises Unavailable for a database that is unreachable, read-only, refuses the login or was
    changed by another version; Conflict for a transaction that lost; InvalidInput for a value that
    PostgreSQL cannot hold. Other exceptions are defects and pass through.
    """
    try:
        with _ended_sessions():
            yield
    except DBAPIError as error:
        state = _sqlstate(error.orig) if error.orig is not None else ""
        if error.connection_invalidated or state.startswith(_AWAY):
            raise Unavailable(f"PostgreSQL {_verb_of(state)}: {error.orig}") from error
        if state.startswith(_OTHER_VERSION):
            raise _of_another_version(error.orig) from error
        if state.startswith(_AGAIN):
            raise Conflict(f"the transaction lost against another: {error.orig}") from error
        if state.startswith(_UNSTORABLE):  # a retry cannot help: refuse the value
            raise InvalidInput(f"a value cannot be stored: {error.orig}", code="unstorable") from error
        raise
    except asyncpg.PostgresError as error:
        if _sqlstate(error).startswith(_AWAY):
            raise Unavailable(f"PostgreSQL {_verb_of(_sqlstate(error))}: {error}") from error
        if _sqlstate(error).startswith(_OTHER_VERSION):
            raise _of_another_version(error) from error
        raise
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, ConnectionError) as error:
        # InternalClientError: the server's last word ("another server process crashed") was read, its EOF not yet
        raise Unavailable(f"PostgreSQL does not answer: {error}") from error


@contextmanager
def _ended_sessions() -> Iterator[None]:
    """Raises Unavailable where asyncpg finds no protocol: `terminate` drops it, even between two steps of a call."""
    try:
        yield
    except AttributeError as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        raised_in = None if trace is None else trace.tb_frame.f_globals.get("__name__")
        if error.obj is not None or raised_in != asyncpg.connection.__name__:
            raise
        raise Unavailable("PostgreSQL does not answer: the session was ended within a statement") from error


@contextmanager
def connecting() -> Iterator[None]:
    """As `translated`, and any network failure or timeout is Unavailable. Use it only around
    database calls.
    """
    try:
        with translated():
            yield
    except (PoolTimeout, OSError, TimeoutError) as error:
        raise Unavailable(f"PostgreSQL cannot be reached: {str(error) or type(error).__name__}") from error
