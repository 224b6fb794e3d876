"""A start declares some hundred consumers; no request may wait for all the others before it is checked."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, StreamConfig

from slackwater.bus.admin.stream_setup import AT_A_TIME, consumer_configs, declare
from slackwater.bus.admin.streams import load


class SlowBroker:
    """Answers one request after the other, as a broker does that writes each consumer to a slow disk."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.open = 0
        self.most = 0
        self._one_at_a_time = asyncio.Lock()

    async def add_stream(self, config: StreamConfig) -> None:
        await self._answer(config.name)

    async def add_consumer(self, stream: str, config: ConsumerConfig) -> None:
        assert stream in self.asked, "a stream is there before its consumers"
        await self._answer(config.durable_name)

    async def _answer(self, name: str | None) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        async with self._one_at_a_time:
            await asyncio.sleep(0)
        self.open -= 1
        self.asked.append(name)


async def test_everything_is_declared_a_few_requests_at_a_time() -> None:
    topology, broker = load(), SlowBroker()
    await declare(cast(JetStreamContext, cast(Any, broker)), topology)
    consumers = [
        config.durable_name for name, spec in topology.consumers.items() for config in consumer_configs(name, spec)
    ]
    assert sorted(map(str, broker.asked)) == sorted([*topology.streams, *map(str, consumers)])
    assert broker.most == min(AT_A_TIME, len(consumers)) < len(consumers)
