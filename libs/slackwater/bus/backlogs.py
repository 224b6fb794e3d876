"""What the broker still holds: how far behind each consumer is, and how full each stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo
from nats.js.errors import NotFoundError

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
            infos = [info for durable in durable_names(name, topology.consumers[name])
                     if (info := await _info(js, topology.stream_of(name), durable)) is not None]  # fmt: skip
            if infos:
                lags[name] = Lag(sum(i.num_pending or 0 for i in infos), sum(i.num_ack_pending or 0 for i in infos))
    except (NatsError, TimeoutError) as error:
        raise Unavailable(f"the broker does not tell its backlogs: {str(error) or type(error).__name__}") from error
    return Backlogs(lags, fills)


async def _info(js: JetStreamContext, stream: str, durable: str) -> ConsumerInfo | None:
    """None while it is not there: nobody has declared it yet, or it jumps."""
    try:
        info: ConsumerInfo = await js.consumer_info(stream, durable)
    except NotFoundError:
        return None
    return info
