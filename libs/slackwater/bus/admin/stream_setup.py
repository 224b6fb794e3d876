"""Declares the topology in the broker: creates what is missing, updates what differs, leaves the
rest unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
)
from nats.js.errors import APIError, BadRequestError, NotFoundError, ServerError

from slackwater.bus.admin.streams import ConsumerSpec, StreamSpec, Topology, durable_name, durable_names, event_named
from slackwater.events.envelope import partition_subjects, subjects_of
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.identifiers import PARTITIONS
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

STREAM_EXISTS_DIFFERENTLY = 10058
MOST_CONSUMERS = 20_000
"""Consumer limit per stream. Every agent watches its intents with a consumer of its own; the
broker's default is 1,000.
"""


USUAL_REPLICAS = 3
"""One server of three may fail: two hold every acknowledged message."""
NO_ROOM = (10023, 10028, 10047)
"""JetStream error codes for insufficient resources, memory or storage."""
NO_PEERS = (10005, 10074)
"""JetStream error codes for more replicas than the cluster has servers, and for several without a cluster."""
NO_ROOM_PAUSES_SECONDS = (0.1, 0.2, 0.4)
DELETION_SECONDS = 1.0
AT_A_TIME = 8
"""Concurrent requests to the broker. It creates consumers one after the other and each request has
its own timeout: with more than a hundred sent at once, the last timed out on a slow disk.
"""
ASKED_AT_MOST = 10
"""Attempts per request of 3 s. A broker short of disk or CPU may answer after the timeout: three were
too few for eight clients that began at once beside a disk writer. Repeating is safe because existing
streams and consumers are left unchanged.
"""


async def declare(js: JetStreamContext, topology: Topology, replicas: Sequence[int] = (1,)) -> int:
    """Declare all streams and consumers; returns the number of replicas that every stream has. Idempotent and safe
    from many processes at once. `replicas`: the wanted numbers, best first. A consumer has as many as its stream.

    Raises Unavailable; Misconfigured for a change that JetStream cannot make in place (storage of a
    stream, start of a consumer).
    """
    turns = asyncio.Semaphore(AT_A_TIME)
    kept = await asyncio.gather(
        *(_declare_stream(js, name, spec, replicas, turns) for name, spec in topology.streams.items())
    )
    configs = [
        (topology.stream_of(name), config, spec.jump_seconds is not None)
        for name, spec in topology.consumers.items()
        for config in consumer_configs(name, spec)
    ]
    await asyncio.gather(*(_declare_consumer(js, *config, turns) for config in configs))
    return min(kept, default=max(replicas))


async def rewind(js: JetStreamContext, topology: Topology, name: str, partition: int) -> int:
    """Put one partition of a consumer on the newest message of each subject; returns the number of
    these messages.

    The broker cannot move a consumer, so it is deleted and created again. Raises nats errors; the
    consumer may then be missing, and its reader must have it declared.
    """
    stream, spec = topology.stream_of(name), topology.consumers[name]
    config = consumer_configs(name, spec)[partition]
    with suppress(NotFoundError):
        await js.delete_consumer(stream, durable_name(name, partition))
    return (await js.add_consumer(stream, _newest_first(config))).num_pending or 0


async def recreate(js: JetStreamContext, topology: Topology, name: str, number: int) -> None:
    """Make one partition of a consumer anew (0: one without partitions), at its first position; one that jumps on the
    newest message of each subject. Raises nats errors.
    """
    stream, spec = topology.stream_of(name), topology.consumers[name]
    config = consumer_configs(name, spec)[number]
    with suppress(NotFoundError, TimeoutError):  # deleting a consumer without leader is done, and not answered
        async with asyncio.timeout(DELETION_SECONDS):
            await js.delete_consumer(stream, durable_names(name, spec)[number])
    await js.add_consumer(stream, _newest_first(config) if spec.jump_seconds is not None else config)


def _newest_first(config: ConsumerConfig) -> ConsumerConfig:
    return config.evolve(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT)


async def _declare_stream(
    js: JetStreamContext, name: str, spec: StreamSpec, replicas: Sequence[int], turns: asyncio.Semaphore
) -> int:
    try:
        async with turns:
            for number in replicas:
                try:
                    await _patiently(lambda: _made_or_updated(js, name, stream_config(name, spec, number)))  # noqa: B023 - awaited here
                    return number
                except APIError as error:
                    if error.err_code not in NO_PEERS or number == replicas[-1]:
                        raise
            raise AssertionError("no number of replicas is wanted")
    except (NatsError, TimeoutError) as error:
        raise _explained(f"stream {name}", error) from error


def wanted_replicas(setting: int | None, *, clustered: bool) -> tuple[int, ...]:
    """Returns the numbers of replicas to try, best first: that of the setting; else three in a cluster, or one where
    it has fewer servers.
    """
    if setting is not None:
        return (setting,)
    return (USUAL_REPLICAS, 1) if clustered else (1,)


async def _patiently(ask: Callable[[], Awaitable[object]]) -> None:
    for times_left in reversed(range(ASKED_AT_MOST)):
        try:
            await ask()
            return
        except TimeoutError:
            if not times_left:
                raise


async def _made_or_updated(js: JetStreamContext, name: str, config: StreamConfig) -> None:
    try:
        await js.add_stream(config)
    except APIError as error:
        if error.err_code not in (STREAM_EXISTS_DIFFERENTLY, *NO_ROOM) or not await _is_there(js, name):
            raise
        await js.update_stream(config)
        if error.err_code == STREAM_EXISTS_DIFFERENTLY:
            log.info("stream updated", stream=name)


async def _is_there(js: JetStreamContext, name: str) -> bool:
    """Returns whether a stream exists. The broker checks capacity before existence, so creating a
    stream that exists, or that another process is creating, can fail with "insufficient resources".
    """
    for pause_seconds in (0.0, *NO_ROOM_PAUSES_SECONDS):
        await asyncio.sleep(pause_seconds)
        with suppress(NotFoundError):
            await js.stream_info(name)
            return True
    return False


async def _declare_consumer(
    js: JetStreamContext, stream: str, config: ConsumerConfig, jumps: bool, turns: asyncio.Semaphore
) -> None:
    try:
        async with turns:
            try:
                await _patiently(lambda: js.add_consumer(stream, config))
            except (BadRequestError, ServerError):
                if not jumps:
                    raise
                await js.add_consumer(stream, _newest_first(config))  # a consumer that has jumped stays as it is
    except (NatsError, TimeoutError) as error:
        raise _explained(f"consumer {config.durable_name}", error) from error


def stream_config(name: str, spec: StreamSpec, replicas: int = 1) -> StreamConfig:
    """Returns the JetStream configuration of a stream."""
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
        max_msg_size=spec.max_message_bytes or -1,
        duplicate_window=window,
        max_consumers=MOST_CONSUMERS,
        allow_direct=True,
        compression=StoreCompression(spec.compression),
        num_replicas=replicas,
    )


def consumer_configs(name: str, spec: ConsumerSpec) -> list[ConsumerConfig]:
    """Returns the broker's consumers of a consumer: one, or one per partition."""
    payload = event_named(spec.event)
    if not spec.partitioned:
        return [consumer_config(name, spec, [subjects_of(payload)])]
    return [
        consumer_config(durable_name(name, partition), spec, partition_subjects(payload, partition))
        for partition in range(PARTITIONS)
    ]


def consumer_config(name: str, spec: ConsumerSpec, filters: list[str]) -> ConsumerConfig:
    """Returns the JetStream configuration of a consumer. The broker's max_deliver stays unlimited,
    because it drops silently.
    """
    return ConsumerConfig(
        durable_name=name,
        filter_subject=filters[0] if len(filters) == 1 else None,
        filter_subjects=filters if len(filters) > 1 else None,
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
    return Unavailable(f"{what} could not be declared: {str(error) or type(error).__name__}")
