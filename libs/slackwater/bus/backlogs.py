"""What the broker still holds: how far behind each consumer is, and how full each stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from slackwater.bus.streams import Topology, durable_names
from slackwater.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Lag:
    """Of one consumer: messages not delivered yet, and delivered but not settled."""

    waiting: int
    unsettled: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Of one stream: what it holds and may hold."""

    messages: int
    stored_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Backlogs:
    """All of them, by name. A stream or consumer that does not exist (yet) is missing."""

    consumers: Mapping[str, Lag]
    streams: Mapping[str, Fill]


async def backlogs(js: JetStreamContext, topology: Topology, consumers: Iterable[str]) -> Backlogs:
    """One question per stream and per consumer, or per partition of one. Raises Unavailable."""
    lags: dict[str, Lag] = {}
    fills: dict[str, Fill] = {}
    try:
        for name, spec in topology.streams.items():
            state = (await js.stream_info(name)).state
            fills[name] = Fill(state.messages, state.bytes, spec.max_bytes)
        for name in consumers:
            stream, durables = topology.stream_of(name), durable_names(name, topology.consumers[name])
            parts = [await js.consumer_info(stream, durable) for durable in durables]
            lags[name] = Lag(
                sum(part.num_pending or 0 for part in parts), sum(part.num_ack_pending or 0 for part in parts)
            )
    except (NatsError, TimeoutError) as error:
        raise Unavailable(f"the broker does not tell its backlogs: {error or type(error).__name__}") from error
    return Backlogs(lags, fills)
