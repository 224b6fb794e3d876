"""Alerts fire for a first time too, although Prometheus sees no increase of a counter that begins with it."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from promql_machine import Labels, Series
from test_alerts_fire import fired, named
from tests.support.clock import FakeClock

from slackwater.agent.metrics import AgentMetrics
from slackwater.agent.usecases.disconnected_mode import STANDS_IN_FOR
from slackwater.runtime.supervisor import Supervisor
from slackwater.telemetry.metrics import Meters, process_meters

LETTERS, LEASES, RESTARTS = "SlackwaterDeadLetters", "SlackwaterLeaseExpired", "SlackwaterServiceRestarts"
STORM = "SlackwaterEvictionStorm"
FIRST = 7200
MINUTE = 60


def letters(first: Series, **labels: str) -> dict[tuple[str, Labels], Series]:
    return {("slackwater_bus_dead_letters_total", named(instance="one", **labels)): first}


def begins_at_once(number: float) -> Series:
    """As a counter with a new label value: no series, and then a number."""
    return lambda now: number if now >= FIRST else None


def test_the_first_dead_letter_of_a_consumer_and_a_reason_fires_for_a_quarter_of_an_hour() -> None:
    series = letters(begins_at_once(1.0), consumer="console-node-described", reason="malformed_json")
    series |= letters(lambda now: 3.0, consumer="ingestion-usage-reported", reason="clock_skew")
    told = {named(consumer="console-node-described", reason="malformed_json"): 1.0}
    assert fired(LETTERS, series, FIRST - 30) == {}
    assert fired(LETTERS, series, FIRST) == told
    assert fired(LETTERS, series, FIRST + 14 * MINUTE) == told
    assert fired(LETTERS, series, FIRST + 16 * MINUTE) == {}


def test_a_second_dead_letter_fires_as_well() -> None:
    again: Series = lambda now: 1.0 if now < FIRST else 2.0  # noqa: E731 - a drawing
    series = letters(again, consumer="a", reason="b")
    assert set(fired(LETTERS, series, FIRST + MINUTE)) == {named(consumer="a", reason="b")}


@pytest.mark.parametrize("replicas", [1, 2])
def test_without_dead_letters_no_alert_fires(replicas: int) -> None:
    quiet: Series = lambda now: 0.0  # noqa: E731 - a drawing
    assert fired(LETTERS, letters(quiet, consumer="a", reason="b"), FIRST * replicas) == {}


@pytest.mark.parametrize(("number", "fires"), [(15, False), (25, True)])
def test_the_first_evictions_of_a_pool_are_a_storm_if_they_are_many(number: int, fires: bool) -> None:
    series = {("slackwater_ensurance_evictions_total", named(instance="one", pool="edge")): begins_at_once(number)}
    assert fired(STORM, series, FIRST + MINUTE) == ({named(pool="edge"): number} if fires else {})
    assert fired(STORM, series, FIRST + 11 * MINUTE) == {}


def test_an_agent_counts_expired_leases_from_nought() -> None:
    registry = CollectorRegistry()
    AgentMetrics(Meters(registry), STANDS_IN_FOR)
    begun = registry.get_sample_value("slackwater_agent_leases_expired_total", {"writer": "ensurance"})
    assert begun == 0.0
    lapsed: Series = lambda now: begun if now < FIRST else 1.0  # noqa: E731 - a drawing
    series = {("slackwater_agent_leases_expired_total", named(instance="n1", writer="ensurance")): lapsed}
    assert set(fired(LEASES, series, FIRST + MINUTE)) == {named(writer="ensurance")}


class Idle:
    name = "idle"


def test_restarts_are_counted_from_zero_so_the_third_fires() -> None:
    Supervisor([Idle()], clock=FakeClock())  # type: ignore[list-item]  # it is not run
    counter = process_meters().counter("slackwater_service_restarts_total", "", ["service"])
    (begun,) = [sample.value for sample in counter.collect()[0].samples if sample.labels == {"service": "idle"}]
    assert begun == 0.0
    failing: Series = lambda now: min(3.0, max(0, (now - FIRST) // MINUTE))  # noqa: E731 - a drawing
    series = {("slackwater_service_restarts_total", named(instance="one", service="idle")): failing}
    assert set(fired(RESTARTS, series, FIRST + 5 * MINUTE)) == {named(service="idle")}


POISON = "SlackwaterAgentSendsPoison"


@pytest.mark.parametrize(("number", "fires"), [(4, False), (6, True)])
def test_an_agent_that_sends_poison_is_named_from_its_first_messages_on(number: int, fires: bool) -> None:
    series = {("slackwater_bus_dead_letters_by_node_total", named(instance="one", node="n1")): begins_at_once(number)}
    assert fired(POISON, series, FIRST - 30) == {}
    assert fired(POISON, series, FIRST + MINUTE) == ({named(node="n1"): number} if fires else {})
    assert fired(POISON, series, FIRST + 11 * MINUTE) == {}


@pytest.mark.parametrize(("number", "fires"), [(99, False), (100, True)])
def test_an_agent_that_floods_is_named(number: int, fires: bool) -> None:
    series = {("slackwater_bus_over_rate_total", named(instance="one", node="n1")): begins_at_once(number)}
    assert fired("SlackwaterAgentFloods", series, FIRST + MINUTE) == ({named(node="n1"): number} if fires else {})


def test_an_agent_that_is_held_is_named_from_its_first_hold_on() -> None:
    series = {("slackwater_bus_held_agents_total", named(instance="one", node="n1")): begins_at_once(1)}
    assert fired("SlackwaterAgentHeld", series, FIRST - 30) == {}
    assert fired("SlackwaterAgentHeld", series, FIRST + MINUTE) == {named(node="n1"): 1}
    assert fired("SlackwaterAgentHeld", series, FIRST + 11 * MINUTE) == {}


def test_an_agent_that_goes_on_sending_poison_is_named_as_long_as_it_does() -> None:
    growing: Series = lambda now: max(0.0, (now - FIRST) / 60)  # noqa: E731 - a drawing
    series = {("slackwater_bus_dead_letters_by_node_total", named(instance="one", node="n1")): growing}
    assert set(fired(POISON, series, FIRST + 30 * MINUTE)) == {named(node="n1")}
