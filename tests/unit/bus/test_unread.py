"""What cannot be read, or is of a newer version, is named once and stops no neighbour, with or without a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.port import Done, Received, Settlement
from slackwater.bus.read.unread import MOST_SUBJECTS, UnreadSubjects
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.nodes import Liveness
from slackwater.telemetry.metrics import Meters

NOW = datetime(2026, 1, 5, tzinfo=UTC)
CONSUMER = "console-node-liveness-changed"


def message(node: str) -> Message:
    data = NodeLivenessChanged(node=node, liveness=Liveness.LOST, previous=None, last_report_at=NOW, changed_at=NOW)
    return encode(event_of(data, source="test", time=NOW))


def newer_version(node: str) -> Message:
    sent = message(node)
    return replace(sent, headers={**sent.headers, "ce-type": sent.headers["ce-type"].replace(".v1", ".v2")})


def newer_value(node: str) -> Message:
    sent = message(node)
    return replace(sent, body=sent.body.replace(b'"lost"', b'"asleep"'))


def broken(node: str) -> Message:
    return replace(message(node), body=b"{")


HOSTILE = {"wrong_version": newer_version, "unknown_value": newer_value, "malformed_json": broken}


@pytest.mark.parametrize("reason", HOSTILE)
async def test_a_consumer_buries_it_by_name_and_goes_on(reason: str) -> None:
    clock = FakeClock()
    broker, heard = MemoryBroker(clock=clock), list[str]()
    bus = MemoryBus(broker)

    async def handler(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        heard.extend(received.event.data.node for received in batch)
        return [Done()] * len(batch)

    async with bus.consume(NodeLivenessChanged, CONSUMER, handler):
        for sent in (message("a"), HOSTILE[reason]("b"), message("c")):
            broker.store("STATE", sent)
        await clock.advance(1)
    assert heard == ["a", "c"]
    (letter,) = bus.dead_letters
    assert letter.reason == reason
    if reason != "malformed_json":
        assert "v2" in letter.detail or "'asleep'" in letter.detail


@pytest.mark.parametrize("reason", HOSTILE)
async def test_a_watch_skips_it_goes_on_and_names_it_until_it_is_replaced(reason: str) -> None:
    clock = FakeClock()
    broker, heard = MemoryBroker(clock=clock), list[str]()
    bus = MemoryBus(broker)

    async def handler(event: Event[NodeLivenessChanged]) -> None:
        heard.append(event.data.node)

    for sent in (message("a"), HOSTILE[reason]("b"), message("c")):
        broker.store("STATE", sent)
    async with bus.watch(NodeLivenessChanged, handler):
        await clock.advance(1)
        assert sorted(heard) == ["a", "c"]
        subject = message("b").subject
        assert bus.unread.text() == f"skipped, because they cannot be read: {subject} ({reason})"
        broker.store("STATE", message("b"))
        await clock.advance(1)
        assert sorted(heard) == ["a", "b", "c"]
        assert bus.unread.text() == ""


def test_one_line_of_log_for_each_subject_and_a_count_of_all() -> None:
    registry = CollectorRegistry()
    unread = UnreadSubjects(Meters(registry))
    with capture_logs() as lines:
        for _ in range(1000):
            assert unread.decoded(NodeLivenessChanged, broken("a")) is None
            assert unread.decoded(NodeLivenessChanged, newer_version("b")) is None
    assert [line["subject"] for line in lines] == [message("a").subject, message("b").subject]
    assert registry.get_sample_value("slackwater_bus_unread_messages") == 2
    unread.decoded(NodeLivenessChanged, message("a"))
    assert registry.get_sample_value("slackwater_bus_unread_messages") == 1
    labels = {"event": "node.liveness_changed", "reason": "malformed_json"}
    assert registry.get_sample_value("slackwater_bus_unread_total", labels) == 1000


def test_what_is_remembered_and_shown_is_bounded() -> None:
    unread = UnreadSubjects(Meters(CollectorRegistry()))
    for number in range(MOST_SUBJECTS + 10):
        unread.decoded(NodeLivenessChanged, broken(f"n{number}"))
    assert unread.text().endswith(f"and {MOST_SUBJECTS - 5} more")
    assert len(unread.text()) < 1000
