"""How many connections a listener has, and which of them makes room."""

from __future__ import annotations

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from slackwater.runtime.http_connections import OpenConnections, connection_limit, stream_limit
from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.metrics import Meters


class Accepted:
    """A connection that closes when it is told to."""

    def __init__(self) -> None:
        self.is_open = True

    def close_now(self) -> None:
        self.is_open = False


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def connections_of(registry: CollectorRegistry, limit: int) -> OpenConnections:
    return OpenConnections(limit, HttpMetrics(Meters(registry)))


@pytest.mark.parametrize(
    ("descriptors", "setting", "limit"),
    [(1024, 512, 256), (1024, 100, 100), (1_048_576, 512, 512), (64, 512, 16), (16, 512, 8), (-1, 512, 512)],
)
def test_the_limit_leaves_three_quarters_of_the_descriptors(
    descriptors: int, setting: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    settings = HttpSettings(connections=setting)
    assert connection_limit(settings) == limit
    assert stream_limit(settings) == limit // 2


def test_at_the_limit_the_connection_that_waits_the_longest_makes_room(registry: CollectorRegistry) -> None:
    connections = connections_of(registry, 8)
    accepted = [Accepted() for _ in range(10)]
    for one in accepted[:8]:
        connections.add(one)
    connections.keep(accepted[0])
    connections.wait(accepted[1])
    for one in accepted[8:]:
        connections.add(one)
    assert [one.is_open for one in accepted] == [True, True, False, False, *[True] * 6]
    assert len(connections) == 8
    assert registry.get_sample_value("slackwater_http_open_connections") == 8
    assert registry.get_sample_value("slackwater_http_closed_connections_total", {"reason": "room"}) == 2


def test_requests_in_progress_never_hold_all_connections(registry: CollectorRegistry) -> None:
    connections = connections_of(registry, 8)
    accepted = [Accepted() for _ in range(8)]
    for one in accepted:
        connections.add(one)
        connections.keep(one)
    probe = Accepted()
    connections.add(probe)
    assert probe.is_open
    assert [one.is_open for one in accepted] == [*[True] * 6, False, True]


def test_a_closed_connection_is_forgotten_once(registry: CollectorRegistry) -> None:
    connections, accepted = connections_of(registry, 8), Accepted()
    connections.add(accepted)
    for _ in range(2):
        connections.remove(accepted)
    connections.keep(accepted)
    connections.wait(accepted)
    assert len(connections) == 0
    assert registry.get_sample_value("slackwater_http_open_connections") == 0


@given(st.lists(st.tuples(st.sampled_from(["add", "keep", "wait", "remove"]), st.integers(0, 40)), max_size=200))
def test_the_limit_holds_and_a_new_connection_is_never_the_one_that_is_closed(steps: list[tuple[str, int]]) -> None:
    connections = connections_of(CollectorRegistry(), 8)
    accepted = [Accepted() for _ in range(41)]
    known: set[int] = set()
    for step, number in steps:
        one = accepted[number]
        if step == "add":
            if number in known:
                continue
            known.add(number)
            connections.add(one)
            assert one.is_open
        else:
            getattr(connections, step)(one)
        assert len(connections) <= 8
