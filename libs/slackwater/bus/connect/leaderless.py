"""Makes consumers anew that have lost their leader for good.

A server that restarts has lost its replicas in memory. It does not count as one of the two that elect a leader until
each consumer has caught up. If a second server stands still before that, its consumers wait until that one is back,
however long it takes, although two servers work. Replicas on disk have no such gap, but a stream that has just got its
replicas is ahead of its consumers: for about a second each is on one server only, and is lost with it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from contextlib import suppress

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import APIError, ServiceUnavailableError

from slackwater.bus.admin.stream_setup import recreate
from slackwater.bus.admin.streams import Topology, durable_names
from slackwater.bus.connect.failover import answers_jetstream
from slackwater.bus.connect.nats_client import is_clustered
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

LEADERLESS_SECONDS = 10.0
"""Electing a leader takes 4 to 9 s. One that takes longer costs a second reading of what the stream still has."""
CONSUMER_OFFLINE = 10119
"""JetStream's error code for a consumer without any of its servers. It comes 90 s after the last one stood still."""
UNANSWERED_SECONDS = 30.0
"""No answer for so long, although JetStream's leader answers. A busy broker does not take that long."""


class LeaderlessConsumers:
    """Looks after the consumers that one bus reads. `on_anew` is called when one was made anew: requests to
    the old one are lost.
    """

    def __init__(
        self, client: Client, js: JetStreamContext, topology: Topology, on_anew: Callable[[str], None]
    ) -> None:
        self._client = client
        self._js = js
        self._topology = topology
        self._on_anew = on_anew
        self._due: dict[str, float] = {}
        """When a consumer without leader is made anew."""
        self._files_at = 0.0
        """When all consumers on disk are looked at again."""

    async def check(self, consumers: Collection[str]) -> None:
        """Look once at every consumer whose stream is in memory, and now and then at those on disk.

        A server that is cut off from the others says of every consumer that it has no leader, so nothing is held
        against one while JetStream itself does not answer.
        """
        if not is_clustered(self._client):
            return
        if not self._client.is_connected or not await answers_jetstream(self._client):
            self._due.clear()
            return
        now = asyncio.get_running_loop().time()
        with_files = now >= self._files_at
        if with_files:
            self._files_at = now + LEADERLESS_SECONDS
        durables = [
            (consumer, number, name)
            for consumer in consumers
            if (spec := self._topology.consumers.get(consumer)) is not None
            for number, name in enumerate(durable_names(consumer, spec))
            if with_files or name in self._due or self._is_in_memory(consumer)
        ]
        await asyncio.gather(*(self._check_durable(*durable) for durable in durables))

    def _is_in_memory(self, consumer: str) -> bool:
        return self._topology.streams[self._topology.stream_of(consumer)].storage == "memory"

    async def _check_durable(self, consumer: str, number: int, name: str) -> None:
        try:
            await self._js.consumer_info(self._topology.stream_of(consumer), name)
        except TimeoutError:
            limit_seconds = UNANSWERED_SECONDS
        except APIError as error:
            without_leader = isinstance(error, ServiceUnavailableError) and self._is_in_memory(consumer)
            if not without_leader and error.err_code != CONSUMER_OFFLINE:
                return  # a missing consumer is declared again by its reader
            limit_seconds = LEADERLESS_SECONDS
        except NatsError:
            return
        else:
            self._due.pop(name, None)
            return
        now = asyncio.get_running_loop().time()
        if now < self._due.setdefault(name, now + limit_seconds * random.uniform(1, 1.5)):
            return
        log.warning("consumer without leader is made anew", consumer=name)
        self._due.pop(name, None)
        with suppress(NatsError, TimeoutError):
            await recreate(self._js, self._topology, consumer, number)
            self._on_anew(f"consumer {name} was made anew")
