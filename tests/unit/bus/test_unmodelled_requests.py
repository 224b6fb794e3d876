"""What the in-memory server does not do fails the test that asks for it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.jetstream.api import JetStreamApi
from tests.support.jetstream.api_errors import Unmodelled
from tests.support.jetstream.broker import JetStreamBroker

STREAM: dict[str, Any] = {"name": "T", "subjects": ["t.>"], "storage": "file"}


@pytest.mark.parametrize("more", [{"retention": "workqueue"}, {"max_msgs": 5}, {"republish": {"src": ">"}}])
async def test_a_stream_of_another_kind(more: dict[str, Any]) -> None:
    with pytest.raises(Unmodelled):
        JetStreamBroker(is_declared=False).add_stream("T", {**STREAM, **more})


@pytest.mark.parametrize("more", [{"max_deliver": 3}, {"ack_policy": "all"}, {"deliver_subject": "push"}])
async def test_a_consumer_of_another_kind(more: dict[str, Any]) -> None:
    broker = JetStreamBroker(is_declared=False)
    stream = broker.add_stream("T", STREAM)
    with pytest.raises(Unmodelled):
        broker.add_consumer(stream, "c", {"durable_name": "c", "ack_policy": "explicit", **more})


async def test_a_request_that_the_bus_does_not_send() -> None:
    with pytest.raises(Unmodelled, match=r"STREAM\.SNAPSHOT\.T"):
        JetStreamApi(JetStreamBroker(is_declared=False)).answer(["STREAM", "SNAPSHOT", "T"], b"")
