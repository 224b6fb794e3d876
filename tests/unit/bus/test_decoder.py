"""The boundary of every reader: whatever a decoder raises refuses one message, on each way of reading."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slackwater.bus.codec import decoder
from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.codec.decoder import decode_message
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.consume.agent_rates import AgentRates
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.read.broadcast import BroadcastSubscription
from slackwater.bus.read.stream_reader import stream_event
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.bus.read.watch import WatchDelivery
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Event, event_of
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Unavailable
from slackwater.model.nodes import Liveness
from slackwater.model.time import SystemClock
from slackwater.telemetry.metrics import process_meters

NOW = datetime(2026, 1, 5, tzinfo=UTC)
EVENT = event_of(
    NodeLivenessChanged(node="n", liveness=Liveness.LOST, previous=None, last_report_at=NOW, changed_at=NOW),
    source="test",
    time=NOW,
)
MESSAGE = encode(EVENT)
UNREAD = UnreadSubjects(process_meters())
RAISED = [UnicodeDecodeError("utf-8", b"\xed", 0, 1, "bad"), OverflowError("large"), RecursionError("deep")]


async def no_event(node: str, slot: int) -> None:
    """Implements ReadRoster for messages that count by no roster."""


@pytest.fixture(params=RAISED, ids=lambda error: type(error).__name__)
def raised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Exception:
    spoil(monkeypatch, request.param)
    error: Exception = request.param
    return error


def spoil(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def failing(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(decoder, "decode_on", failing)
    monkeypatch.setattr(decoder, "attributes_of", failing)


def decoded() -> Event[NodeLivenessChanged]:
    return decode_message(MESSAGE.subject, NodeLivenessChanged, MESSAGE.headers, MESSAGE.body)


def test_a_decoder_that_raises_refuses_with_a_code_and_a_place(raised: Exception) -> None:
    with pytest.raises(Undecodable, match=f"{type(raised).__name__} at ") as refusal:
        decoded()
    assert refusal.value.code == "decoder_failed"


def test_a_refusal_keeps_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, Undecodable("no", code="malformed_json"))
    with pytest.raises(Undecodable) as refusal:
        decoded()
    assert refusal.value.code == "malformed_json"


def test_without_memory_the_message_is_read_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, MemoryError())
    with pytest.raises(Unavailable):
        decoded()


async def test_a_message_that_fails_to_decode_is_skipped_by_watchers_and_subscriptions(raised: Exception) -> None:
    heard: list[object] = []

    async def note(event: Event[Any]) -> None:
        heard.append(event)

    rates = AgentRates(NodeLivenessChanged, "w", BusMetrics(process_meters()), len)
    rosters = KnownRosters(no_event, BusMetrics(process_meters()), SystemClock())
    watch = WatchDelivery(NodeLivenessChanged, note, Blocks, UNREAD, rates, rosters, keeps_last=True)
    await watch.deliver([MESSAGE], 0.0)
    await BroadcastSubscription(LeaseRenewed, UNREAD, {object(): note}).deliver(
        Message(MESSAGE.subject, MESSAGE.headers, MESSAGE.body)
    )
    payloads = {NodeLivenessChanged.TYPE: NodeLivenessChanged}
    assert stream_event(payloads, MESSAGE.subject, MESSAGE.headers, MESSAGE.body, "STATE", 1) is None
    assert heard == []
