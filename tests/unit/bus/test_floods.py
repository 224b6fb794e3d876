from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent import PUBLISHES
from slackwater.bus.access.floods import (
    BYTES_AT_ONCE,
    BYTES_EVERY_SECONDS,
    FORGIVE_SECONDS,
    HOLD_SECONDS,
    MESSAGES_AT_ONCE,
    MESSAGES_EVERY_SECONDS,
    MOST_HOLD_SECONDS,
    Flood,
    FloodWatch,
    Holds,
    Traffic,
)
from slackwater.bus.consume import agent_rates

FLOOD = Flood("agent-a", Traffic(5000, 5000))


def test_an_account_above_its_rate_is_a_flood_and_its_neighbour_none() -> None:
    watch = FloodWatch()
    assert watch.floods("s", {"a": Traffic(7_000_000, 0), "b": Traffic(0, 0)}, 0.0) == [], "a first count is no flood"
    counted = {"a": Traffic(7_000_000 + MESSAGES_AT_ONCE + 1, 9), "b": Traffic(MESSAGES_AT_ONCE, 9)}
    assert watch.floods("s", counted, 0.0) == [Flood("a", Traffic(MESSAGES_AT_ONCE + 1, 9))]
    later = {name: Traffic(traffic.messages + 100, 9) for name, traffic in counted.items()}
    assert watch.floods("s", later, 0.25) == [Flood("a", Traffic(100, 0)), Flood("b", Traffic(100, 0))]
    assert watch.floods("s", later, 60.0) == []


@given(
    sent=st.lists(st.tuples(st.floats(0.01, 60), st.integers(0, 3), st.floats(0, 1), st.floats(0, 1)), max_size=40),
)
def test_what_stays_below_the_rate_is_never_a_flood(sent: list[tuple[float, int, float, float]]) -> None:
    """At any times, over several servers, which restart."""
    watch, counts, now = FloodWatch(), dict.fromkeys("stuv", Traffic(0, 0)), 0.0
    for server in counts:
        watch.floods(server, {"a": counts[server]}, now)
    for pause, number, messages, size_bytes in sent:
        now += pause
        server, last = "stuv"[number], counts["stuv"[number]]
        more = Traffic(int(messages * pause / MESSAGES_EVERY_SECONDS), int(size_bytes * pause / BYTES_EVERY_SECONDS))
        counts[server] = Traffic(last.messages + more.messages, last.size_bytes + more.size_bytes)
        assert watch.floods(server, {"a": counts[server]}, now) == []


def test_bytes_flood_too_and_an_account_that_is_loaded_anew_counts_from_nought() -> None:
    watch = FloodWatch()
    watch.floods("s", {"a": Traffic(1000, 10**9)}, 0.0)
    assert watch.floods("s", {"a": Traffic(10, BYTES_AT_ONCE)}, 1.0) == []
    (flood,) = watch.floods("s", {"a": Traffic(20, BYTES_AT_ONCE + 2 * BYTES_AT_ONCE)}, 2.0)
    assert flood.traffic == Traffic(10, 2 * BYTES_AT_ONCE)
    assert "10 messages with 67108864 bytes at once; an agent may send 2000 or 33554432 bytes at once" in str(flood)


def test_servers_that_are_gone_are_dropped() -> None:
    watch = FloodWatch()
    for number in range(5):
        watch.floods(f"server-{number}", {"a": Traffic(10**6, 0)}, number * (FORGIVE_SECONDS + 1))
    assert list(watch._counted) == list(watch._read_at) == ["server-4"]


def test_an_agent_may_send_what_readers_read_of_each_of_its_types() -> None:
    assert agent_rates.AT_ONCE * len([event for event in PUBLISHES if event != "usage.reported"]) <= MESSAGES_AT_ONCE
    types = len(PUBLISHES)
    assert types / agent_rates.EVERY_SECONDS <= 1 / MESSAGES_EVERY_SECONDS
    assert types * agent_rates.BYTES_AT_ONCE <= BYTES_AT_ONCE
    assert types / agent_rates.BYTES_EVERY_SECONDS <= 1 / BYTES_EVERY_SECONDS


def test_a_hold_ends_and_each_further_one_within_an_hour_is_twice_as_long() -> None:
    holds, now, lengths = Holds(), 0.0, []
    for _ in range(7):
        hold = holds.begin(FLOOD, now)
        assert holds.begin(FLOOD, now + 1.0) == hold, "it is held already"
        assert holds.of("agent-a", hold.until - 0.01) == hold
        assert holds.of("agent-a", hold.until) is None
        lengths.append(hold.seconds)
        now = hold.until + 1.0
    assert lengths == [HOLD_SECONDS, 60.0, 120.0, 240.0, 480.0, MOST_HOLD_SECONDS, MOST_HOLD_SECONDS]
    assert holds.begin(FLOOD, now + FORGIVE_SECONDS).seconds == HOLD_SECONDS


def test_an_account_is_let_in_once_after_its_hold() -> None:
    holds = Holds()
    until = holds.begin(FLOOD, 0.0).until
    assert holds.over(until - 0.01) == []
    assert holds.over(until) == holds.over(until + 5) == ["agent-a"], "until it was let in"
    holds.let_in("agent-a")
    assert holds.over(until + 5) == []
    again = holds.begin(FLOOD, until + 6)
    assert holds.over(again.until) == ["agent-a"]


def test_bytes_below_the_burst_flood_where_they_do_not_end() -> None:
    watch, part = FloodWatch(), BYTES_AT_ONCE // 2
    floods = [watch.floods("s", {"agent-a": Traffic(step, step * part)}, step / 4) for step in range(6)]
    assert [bool(flood) for flood in floods] == [False, False, False, True, True, True]


@pytest.mark.parametrize("account", ["agent-b", ""])
def test_others_are_not_held(account: str) -> None:
    holds = Holds()
    holds.begin(FLOOD, 0.0)
    assert holds.of(account, 1.0) is None
