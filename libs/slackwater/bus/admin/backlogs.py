"""Consumer lag and stream fill levels as the broker reports them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo
from nats.js.errors import NotFoundError

from slackwater.bus.admin.streams import Topology, durable_names
from slackwater.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of one consumer: messages not yet delivered, and messages delivered but not settled."""

    waiting: int
    unsettled: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Fill level of one stream: what it holds and its limits."""

    messages: int
    stored_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Backlogs:
    """Lags and fill levels by name. A stream or consumer that does not exist (yet) is absent."""

    consumers: Mapping[str, Lag]
    streams: Mapping[str, Fill]


async def backlogs(js: JetStreamContext, topology: Topology, consumers: Iterable[str]) -> Backlogs:
    """Queries each stream and each consumer (each partition of a partitioned one) once. Raises
    Unavailable.
    """
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
    """Returns None while the consumer does not exist: not yet declared, or being recreated by a
    jump.
    """
    try:
        info: ConsumerInfo = await js.consumer_info(stream, durable)
    except NotFoundError:
        return None
    return info
