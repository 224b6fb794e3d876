from __future__ import annotations

import asyncpg
import pytest

from slackwater.model.errors import Unavailable
from slackwater.store.driver_errors import connecting, translated


@pytest.mark.parametrize(
    "raised",
    [
        asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.AdminShutdownError("terminating connection"),
        ConnectionResetError("reset"),
    ],
)
def test_a_server_that_dies_under_a_statement_is_unavailable_not_a_defect(raised: Exception) -> None:
    with pytest.raises(Unavailable), translated():
        raise raised


async def test_a_session_that_is_ended_between_two_steps_of_a_statement_is_unavailable() -> None:
    """ServerWatch ends sessions under their statements: services failed, and deliveries of messages were used up."""
    session = object.__new__(asyncpg.Connection)
    session._protocol, session._aborted = None, True  # as `terminate` leaves it
    with pytest.raises(Unavailable, match="ended within a statement"), translated():
        await session._get_statement("SELECT 1", None)


def test_an_attribute_that_is_missing_elsewhere_stays_a_defect() -> None:
    with pytest.raises(AttributeError), translated():
        _ = None.absent  # type: ignore[attr-defined]


def test_a_network_that_is_away_while_connecting_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="reached"), connecting():
        raise OSError("no route")


def test_a_timeout_without_a_message_is_named_by_its_class() -> None:
    with pytest.raises(Unavailable, match=r"reached: TimeoutError$"), connecting():
        raise TimeoutError


def test_a_wrong_statement_stays_a_defect() -> None:
    with pytest.raises(asyncpg.PostgresSyntaxError), translated():
        raise asyncpg.PostgresSyntaxError('syntax error at or near "nothing"')


def test_a_table_that_is_not_there_is_another_version_of_ours() -> None:
    """Whichever driver says so: schemas move forward under replicas that are about to be replaced."""
    with pytest.raises(Unavailable, match=r"another version of Slackwater.*nothing"), translated():
        raise asyncpg.UndefinedTableError('relation "nothing" does not exist')
