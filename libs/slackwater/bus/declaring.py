"""The topology made real in a broker: created where missing, updated where different, otherwise left alone."""

from __future__ import annotations

import asyncio

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError, BadRequestError

from slackwater.bus.streams import ConsumerSpec, StreamSpec, Topology, event_named
from slackwater.events.envelope import subjects_of
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

STREAM_EXISTS_DIFFERENTLY = 10058


async def declare(js: JetStreamContext, topology: Topology) -> None:
    """Idempotent and safe to run from many processes at once. Raises Unavailable; Misconfigured on a change that
    JetStream cannot make in place (storage of a stream, start of a consumer)."""
    await asyncio.gather(*(_declare_stream(js, name, spec) for name, spec in topology.streams.items()))
    await asyncio.gather(*(_declare_consumer(js, topology, name) for name in topology.consumers))


async def _declare_stream(js: JetStreamContext, name: str, spec: StreamSpec) -> None:
    config = stream_config(name, spec)
    try:
        try:
            await js.add_stream(config)
        except BadRequestError as error:
            if error.err_code != STREAM_EXISTS_DIFFERENTLY:
                raise
            await js.update_stream(config)
            log.info("stream updated", stream=name)
    except (NatsError, TimeoutError) as error:
        raise _explained(f"stream {name}", error) from error


async def _declare_consumer(js: JetStreamContext, topology: Topology, name: str) -> None:
    try:
        await js.add_consumer(topology.stream_of(name), consumer_config(name, topology.consumers[name]))
    except (NatsError, TimeoutError) as error:
        raise _explained(f"consumer {name}", error) from error


def stream_config(name: str, spec: StreamSpec) -> StreamConfig:
    """The JetStream form of a stream."""
    window = min(spec.duplicate_window_seconds, spec.max_age_seconds or spec.duplicate_window_seconds)
    return StreamConfig(
        name=name,
        subjects=list(spec.subjects),
        retention=RetentionPolicy.LIMITS,
        storage=StorageType(spec.storage),
        discard=DiscardPolicy(spec.discard),
        max_bytes=spec.max_bytes,
        max_age=spec.max_age_seconds or 0,
        max_msgs_per_subject=spec.max_messages_per_subject or -1,
        duplicate_window=window,
        allow_direct=True,
    )


def consumer_config(name: str, spec: ConsumerSpec) -> ConsumerConfig:
    """The JetStream form of a consumer. The broker's own max_deliver stays unlimited: it would drop silently."""
    return ConsumerConfig(
        durable_name=name,
        filter_subject=subjects_of(event_named(spec.event)),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=spec.ack_wait_seconds,
        max_deliver=-1,
        max_ack_pending=spec.max_ack_pending,
        deliver_policy=DeliverPolicy(spec.deliver),
    )


def _explained(what: str, error: Exception) -> Exception:
    if isinstance(error, BadRequestError | APIError) and error.code in (400, 500):
        text = f"{what} cannot be declared as contracts/streams.yaml says"
        return Misconfigured(f"{text}: {error.description} (JetStream {error.err_code})")
    return Unavailable(f"{what} could not be declared: {error or type(error).__name__}")
