"""Consumer lag and stream fill levels as the broker reports them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AccountInfo, ConsumerInfo, Tier
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
    """Fill level of one stream: what it holds and its limits. `must_not_fill`: see Topology."""

    messages: int
    stored_bytes: int
    limit_bytes: int
    must_not_fill: bool = False


@dataclass(frozen=True, slots=True)
class Backlogs:
    """Lags and fill levels by name. A stream or consumer that does not exist (yet) is absent.

    `stores`: used and allowed bytes of the broker's account, `file` and `memory`; absent without a limit of the
    account.
    """

    consumers: Mapping[str, Lag]
    streams: Mapping[str, Fill]
    stores: Mapping[str, tuple[int, int]] = field(default_factory=dict)


async def backlogs(js: JetStreamContext, topology: Topology, consumers: Iterable[str]) -> Backlogs:
    """Queries each stream and each consumer (each partition of a partitioned one) once. Raises
    Unavailable.
    """
    lags: dict[str, Lag] = {}
    fills: dict[str, Fill] = {}
    try:
        for name, spec in topology.streams.items():
            state = (await js.stream_info(name)).state
            fills[name] = Fill(state.messages, state.bytes, spec.max_bytes, topology.must_not_fill(name))
        for name in consumers:
            infos = [info for durable in durable_names(name, topology.consumers[name])
                     if (info := await _info(js, topology.stream_of(name), durable)) is not None]  # fmt: skip
            if infos:
                lags[name] = Lag(sum(i.num_pending or 0 for i in infos), sum(i.num_ack_pending or 0 for i in infos))
    except (NatsError, TimeoutError) as error:
        raise Unavailable(f"the broker does not tell its backlogs: {str(error) or type(error).__name__}") from error
    return Backlogs(lags, fills, await _stores(js))


async def _stores(js: JetStreamContext) -> dict[str, tuple[int, int]]:
    """Returns the limited stores of this account; empty where it may not be asked."""
    try:
        account = await js.account_info()
    except (NatsError, TimeoutError):
        return {}
    parts: dict[str, AccountInfo | Tier] = {"": account}
    parts |= {f"-{name}": tier for name, tier in (account.tiers or {}).items()}  # with limits by number of replicas
    found = {}
    for suffix, part in parts.items():
        found[f"file{suffix}"] = (part.storage, part.limits.max_storage)
        found[f"memory{suffix}"] = (part.memory, part.limits.max_memory)
    return {name: store for name, store in found.items() if store[1] > 0}


async def _info(js: JetStreamContext, stream: str, durable: str) -> ConsumerInfo | None:
    """Returns None while the consumer does not exist: not yet declared, or being recreated by a
    jump.
    """
    try:
        info: ConsumerInfo = await js.consumer_info(stream, durable)
    except NotFoundError:
        return None
    return info
