"""An account that works the broker without messages is named; one that sends and receives messages is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from slackwater.bus.access.churn import (
    CONNECTION_SECONDS,
    CONNECTIONS_AT_ONCE,
    FORGET_SECONDS,
    MESSAGE_BYTES,
    SIGN_SECONDS,
    SIGNS_AT_ONCE,
    SLACK_BYTES,
    AgentConnection,
    Churn,
    ChurnWatch,
)

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
QUIET = AgentConnection(7, "agent-a", 10, 10, 5000, 0, BEGAN)


def churning(watch: ChurnWatch, steps: list[AgentConnection], every_seconds: float = 0.25) -> list[str]:
    """The reasons of all answers, one of a server for each step."""
    return [
        churn.reason
        for number, connection in enumerate(steps)
        for churn in watch.churning("s", [connection], number * every_seconds)
    ]


def active(seconds: float, **changes: int) -> AgentConnection:
    return replace(QUIET, active_at=BEGAN + timedelta(seconds=seconds), **changes)


def test_answers_that_wait_again_and_again_are_those_to_pings() -> None:
    steps = [replace(QUIET, waiting_bytes=100_000 * (number % 2)) for number in range(2 * SIGNS_AT_ONCE + 3)]
    (reason,) = churning(ChurnWatch(), steps)
    assert reason == "100000 bytes of answers to PINGs or to what is refused wait for a connection"


def test_subscriptions_are_activity_without_messages() -> None:
    (reason,) = churning(ChurnWatch(), [active(number) for number in range(SIGNS_AT_ONCE + 2)])
    assert "subscriptions" in reason


def test_a_few_signs_and_one_now_and_then_are_allowed() -> None:
    watch = ChurnWatch()
    assert churning(watch, [active(number) for number in range(SIGNS_AT_ONCE + 1)]) == []
    assert churning(ChurnWatch(), [active(number) for number in range(100)], SIGN_SECONDS) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 100_000), st.floats(0, 1))))
def test_messages_explain_activity_and_what_waits(steps: list[tuple[int, int, int, float]]) -> None:
    """`late` is the share of what was sent that still waits, with the protocol's bytes around each message."""
    connection, seen = QUIET, [QUIET]
    for received, sent, size, late in steps:
        waiting = int(late * (sent and size + sent * MESSAGE_BYTES)) + SLACK_BYTES * (connection.waiting_bytes == 0)
        connection = replace(
            connection,
            in_messages=connection.in_messages + received,
            out_messages=connection.out_messages + sent,
            out_bytes=connection.out_bytes + (sent and size),
            waiting_bytes=waiting if sent else min(waiting, connection.waiting_bytes + SLACK_BYTES),
            active_at=connection.active_at + timedelta(seconds=bool(received or sent)),
        )
        seen.append(connection)
    assert churning(ChurnWatch(), seen) == []


def test_what_waits_on_a_slow_link_is_no_sign() -> None:
    """An intent of 200 kB that takes a minute: it was counted when it was queued."""
    first = replace(QUIET, out_messages=11, out_bytes=205_000, waiting_bytes=200_000)
    assert churning(ChurnWatch(), [QUIET, *(replace(first, waiting_bytes=200_000 - 800 * n) for n in range(240))]) == []


def test_connections_of_another_server_and_of_another_account_are_others() -> None:
    watch = ChurnWatch()
    for number in range(20):
        assert watch.churning(f"s{number}", [active(number)], number) == []
        other = replace(active(number), account=f"agent-{number}", number=number)
        assert watch.churning("s", [other], number) == []


def test_a_connection_that_was_long_not_listed_is_forgotten() -> None:
    watch = ChurnWatch()
    watch.churning("s", [QUIET, replace(QUIET, number=8)], 0.0)
    watch.churning("s", [replace(QUIET, number=9)], FORGET_SECONDS + 1)
    assert set(watch._last) == {("s", 9)}


def test_new_connections_are_counted_by_account() -> None:
    watch = ChurnWatch()
    assert not any(watch.connected("agent-a", 0.0) for _ in range(CONNECTIONS_AT_ONCE))
    assert watch.connected("agent-a", 0.0) == Churn("agent-a", "more than 60 connections at once, then 2 a second")
    assert watch.connected("agent-b", 0.0) is None
    assert not any(watch.connected("agent-a", 60 + CONNECTION_SECONDS * number) for number in range(500))
