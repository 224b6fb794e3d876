"""Kills, restarts and lost disks: what nats-server keeps, and its twin.

A power failure cannot be caused here: the real server is killed, and its store replaced by a copy made before, which is
what a disk without the last writes looks like.
"""

from __future__ import annotations

import asyncio

from jetstream_lab import ACK_WAIT_SECONDS, Lab, until
from nats.js.api import AckPolicy, ConsumerConfig, StorageType

NO_STREAM = 10059


async def restart(lab: Lab) -> None:
    await lab.server.kill()
    await until(lambda: not lab.client.is_connected)
    await lab.server.start()
    await lab.ready()


async def test_a_kill_keeps_files_and_message_ids_and_loses_streams_in_memory(fragile: Lab) -> None:
    await fragile.stream("T", duplicate_window=60, max_msgs_per_subject=1)
    await fragile.stream("M", storage=StorageType.MEMORY)
    await fragile.consumer("c", "M")
    created = (await fragile.js.stream_info("T")).created
    for number in range(3):
        await fragile.publish("t.a", identity=f"id-{number}")
    await fragile.publish("m.a")
    await restart(fragile)
    assert await fragile.contents() == {3: "t.a"}
    assert (await fragile.js.stream_info("T")).created == created
    assert await fragile.publish("t.a", identity="id-2") == (3, "duplicate")
    assert await fragile.publish("t.a", identity="id-0") == 4, "the id of a removed message is not known any more"
    assert await fragile.refusal(fragile.js.stream_info("M")) == NO_STREAM
    assert await fragile.publish("m.a") == "none"


async def test_after_a_kill_what_was_unacknowledged_is_delivered_again_and_what_was_not_delivered_comes(
    fragile: Lab,
) -> None:
    await fragile.stream()
    await fragile.consumer(ack_wait=ACK_WAIT_SECONDS)
    for _ in range(4):
        await fragile.publish("t.a")
    await fragile.fetch(batch=3)
    await fragile.server.consumer_written(await fragile.info())
    await restart(fragile)
    info = await fragile.info()
    assert (info.delivered.stream_seq, info.num_ack_pending, info.num_pending) == (3, 3, 1)
    found: dict[int, int] = {}
    while set(found) != {1, 2, 3, 4}:
        pull = await fragile.fetch(batch=1)
        await fragile.answer(pull.messages[0])
        found |= dict(pull.brought)
    assert found == {1: 2, 2: 2, 3: 2, 4: 1}


async def test_after_a_kill_an_acknowledgement_written_before_it_is_known(fragile: Lab) -> None:
    await fragile.stream()
    await fragile.consumer(ack_wait=ACK_WAIT_SECONDS)
    for _ in range(2):
        await fragile.publish("t.a")
    first, _ = (await fragile.fetch()).messages
    await fragile.answer(first)
    await fragile.server.consumer_written(await fragile.info())
    await restart(fragile)
    assert (await fragile.fetch(batch=1)).brought == [(2, 2)]
    assert (await fragile.info()).ack_floor.stream_seq == 1


async def test_after_a_kill_recent_acknowledgements_may_be_forgotten_and_nothing_is_skipped(fragile: Lab) -> None:
    """The server acknowledges nothing to the consumer: `+ACK` was sent is no proof that it is on the disk."""
    await fragile.stream()
    await fragile.consumer(ack_wait=ACK_WAIT_SECONDS)
    for _ in range(20):
        await fragile.publish("t.a")
    pull = await fragile.fetch()
    await asyncio.sleep(0.3)
    for message in pull.messages[:10]:
        await fragile.answer(message)
    await restart(fragile)
    found: set[int] = set()
    while not found >= set(range(11, 21)):
        again = await fragile.fetch(batch=1)
        found.update(at for at, _ in again.brought)
        for message in again.messages:
            await fragile.answer(message)
    assert all(1 <= at <= 20 for at in found)


async def test_a_kill_ends_readers_without_acknowledgement(fragile: Lab) -> None:
    await fragile.stream()
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=60)
    name = (await fragile.js.add_consumer("T", config)).name
    await restart(fragile)
    assert (await fragile.fetch(name)).had_no_responder


async def test_an_open_request_ends_with_its_connection_and_no_status_comes(fragile: Lab) -> None:
    await fragile.stream()
    await fragile.consumer()
    pull = await fragile.pull()
    await restart(fragile)
    assert (await fragile.info()).num_waiting == 0
    await fragile.publish("t.a")
    await asyncio.sleep(0.2)
    assert (pull.brought, pull.status) == ([], None)
    assert (await fragile.fetch()).brought == [(1, 1)]


async def test_what_is_sent_while_disconnected_arrives_after_the_reconnect(fragile: Lab) -> None:
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(message.subject)  # type: ignore[attr-defined]

    await fragile.stream()
    await fragile.client.subscribe("free.>", cb=hear)
    await fragile.client.flush()
    await fragile.server.kill()
    await until(lambda: not fragile.client.is_connected)
    await fragile.client.publish("t.late", b"x")
    await fragile.client.publish("free.late", b"x")
    await fragile.server.start()
    await fragile.ready()
    await until(lambda: heard == ["free.late"])
    assert await fragile.contents() == {1: "t.late"}


async def test_a_subscription_misses_what_is_sent_while_it_is_disconnected(fragile: Lab) -> None:
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(message.subject)  # type: ignore[attr-defined]

    async with fragile.another_client() as other:
        await other.client.subscribe("free.*", cb=hear)
        await other.client.flush()
        await restart(fragile)
        await other.ready()
        await fragile.client.publish("free.after", b"x")
        await until(lambda: heard == ["free.after"])


async def test_a_power_failure_loses_the_tail_and_brings_back_what_it_had_removed(fragile: Lab) -> None:
    await fragile.stream(max_msgs_per_subject=1, duplicate_window=60)
    await fragile.consumer()
    await fragile.publish("t.a", identity="one")
    await fragile.publish("t.b", identity="two")
    await asyncio.sleep(0.5)
    created = (await fragile.js.stream_info("T")).created
    await fragile.server.keep_disk()
    await fragile.publish("t.a", identity="three")
    for message in (await fragile.fetch()).messages:
        await fragile.answer(message)
    await fragile.server.lose_power()
    await until(lambda: not fragile.client.is_connected)
    await fragile.server.start()
    await fragile.ready()
    assert await fragile.contents() == {1: "t.a", 2: "t.b"}
    assert (await fragile.js.stream_info("T")).created == created, "it passes for the same stream"
    assert await fragile.publish("t.c", identity="three") == 3, "another message stands at the lost one's sequence"
    assert (await fragile.fetch()).brought == [(1, 1), (2, 1), (3, 1)]


async def test_a_consumer_that_is_ahead_of_its_stream_after_a_power_failure_misses_nothing_new(fragile: Lab) -> None:
    await fragile.stream()
    await fragile.consumer()
    await fragile.publish("t.a")
    await asyncio.sleep(0.5)
    await fragile.server.keep_disk()
    for _ in range(3):
        await fragile.publish("t.b")
    for message in (await fragile.fetch()).messages:
        await fragile.answer(message)
    await fragile.server.consumer_written(await fragile.info())
    await fragile.server.lose_power(keeps_consumers=True)
    await until(lambda: not fragile.client.is_connected)
    await fragile.server.start()
    await fragile.ready()
    info = await fragile.info()
    assert (info.delivered.stream_seq, info.ack_floor.stream_seq, info.num_pending) == (1, 1, 0)
    await fragile.publish("t.c")
    assert (await fragile.fetch()).brought == [(2, 1)]


async def test_a_server_that_stood_still_handles_what_was_sent_meanwhile(fragile: Lab) -> None:
    await fragile.stream()
    await fragile.consumer(ack_wait=ACK_WAIT_SECONDS)
    await fragile.publish("t.a")
    (held,) = (await fragile.fetch()).messages
    await fragile.server.freeze()
    await fragile.client.publish(held.reply, b"+ACK")
    await fragile.client.publish("t.b", b"x")
    await asyncio.sleep(2 * ACK_WAIT_SECONDS)
    fragile.server.resume()
    assert (await fragile.fetch(batch=1)).brought[0] in ((2, 1), (1, 2)), "the acknowledgement races with its time"
    assert await fragile.contents() == {1: "t.a", 2: "t.b"}
