"""Streams: what the bus relies on, on nats-server and on its twin."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_lab import Lab, until
from nats.js.api import DiscardPolicy, StorageType
from nats.js.errors import NotFoundError

FULL, DIFFERS, NO_STREAM, NO_CONSUMER = 10077, 10058, 10059, 10014
STORAGES = pytest.mark.parametrize("storage", [StorageType.FILE, StorageType.MEMORY])


@STORAGES
async def test_a_repeated_message_id_is_answered_with_the_first_sequence(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage, max_msgs_per_subject=1)
    assert await lab.publish("t.a", identity="one") == 1
    assert await lab.publish("t.b", identity="one") == (1, "duplicate")
    assert await lab.publish("t.a", identity="two") == 2
    assert await lab.publish("t.a", identity="one") == (1, "duplicate"), "also when the message is superseded"
    await lab.js.purge_stream("T")
    assert await lab.publish("t.a", identity="two") == (2, "duplicate"), "also when it is purged"


async def test_a_message_id_is_forgotten_after_its_window(lab: Lab) -> None:
    await lab.stream(duplicate_window=0.2)
    assert await lab.publish("t.a", identity="one") == 1
    async with asyncio.timeout(30):
        while await lab.publish("t.a", identity="one") == (1, "duplicate"):
            await asyncio.sleep(0.05)


@STORAGES
async def test_a_subject_keeps_its_newest_messages(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage, max_msgs_per_subject=2)
    for subject in ("t.a", "t.b", "t.a", "t.a", "t.c"):
        await lab.publish(subject)
    assert await lab.contents() == {2: "t.b", 3: "t.a", 4: "t.a", 5: "t.c"}
    state = (await lab.js.stream_info("T")).state
    assert (state.messages, state.first_seq, state.last_seq) == (4, 2, 5)


@STORAGES
async def test_a_full_stream_that_discards_new_refuses(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage, discard=DiscardPolicy.NEW, max_bytes=420)
    answers = [await lab.publish("t.a", b"x" * 150) for _ in range(4)]
    assert answers == [1, 2, FULL, FULL]
    assert await lab.publish("t.a") == 3, "what fits is stored"


@STORAGES
async def test_a_full_stream_that_discards_new_replaces_by_what_is_no_larger(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage, discard=DiscardPolicy.NEW, max_bytes=400, max_msgs_per_subject=1)
    await lab.publish("t.a", b"x" * 150)
    await lab.publish("t.b", b"x" * 150)
    assert [await lab.publish("t.a", b"x" * size) for size in (150, 151, 140, 141, 200)] == [3, FULL, 4, FULL, FULL]
    assert await lab.contents() == {2: "t.b", 4: "t.a"}


@STORAGES
async def test_a_full_stream_that_discards_old_makes_room(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage, discard=DiscardPolicy.OLD, max_bytes=400)
    for _ in range(5):
        await lab.publish("t.a", b"x" * 150)
    assert await lab.contents() == {4: "t.a", 5: "t.a"}


@STORAGES
async def test_a_message_larger_than_its_stream_is_acknowledged_and_empties_it(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage, discard=DiscardPolicy.OLD, max_bytes=400)
    await lab.publish("t.a")
    assert await lab.publish("t.a", b"x" * 500) == 2
    assert await lab.contents() == {}


@STORAGES
async def test_bytes_are_counted_with_subject_headers_and_record(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage)
    await lab.publish("t.a", b"x" * 100)
    await lab.publish("t.longer", b"", identity="an id")
    record = 30 if storage is StorageType.FILE else 16
    headers = len("NATS/1.0\r\nNats-Msg-Id: an id\r\n\r\n") + (4 if storage is StorageType.FILE else 0)
    expected = 2 * record + len("t.a") + 100 + len("t.longer") + headers
    assert (await lab.js.stream_info("T")).state.bytes == expected


@STORAGES
async def test_messages_expire_by_age(lab: Lab, storage: StorageType) -> None:
    await lab.stream(storage=storage, max_age=0.3, duplicate_window=0.3)
    await lab.publish("t.a")
    async with asyncio.timeout(30):
        while (state := (await lab.js.stream_info("T")).state).messages:
            await asyncio.sleep(0.05)
    assert (state.first_seq, state.last_seq) == (2, 1)
    assert await lab.publish("t.a") == 2


async def test_without_a_stream_there_is_an_answer_at_once(lab: Lab) -> None:
    assert await lab.publish("t.a") == "none"
    assert await lab.refusal(lab.js.stream_info("T")) == NO_STREAM
    assert await lab.refusal(lab.info()) == NO_STREAM
    await lab.stream()
    assert await lab.refusal(lab.info()) == NO_CONSUMER
    assert await lab.refusal(lab.js.delete_consumer("T", "c")) == NO_CONSUMER


async def test_a_stream_is_declared_again_unchanged_or_updated(lab: Lab) -> None:
    await lab.stream(max_bytes=1000)
    created = (await lab.js.stream_info("T")).created
    await lab.publish("t.a")
    await lab.stream(max_bytes=1000)
    assert await lab.refusal(lab.stream(max_bytes=2000)) == DIFFERS
    await lab.js.update_stream(name="T", subjects=["t.>"], max_bytes=2000)
    info = await lab.js.stream_info("T")
    assert (info.config.max_bytes, info.state.messages, info.created) == (2000, 1, created)


async def test_a_new_stream_of_the_same_name_counts_from_one_and_was_created_later(lab: Lab) -> None:
    await lab.stream()
    before = (await lab.js.stream_info("T")).created
    await lab.publish("t.a", identity="one")
    await lab.js.delete_stream("T")
    await lab.stream()
    after = await lab.js.stream_info("T")
    assert (after.state.first_seq, after.state.last_seq) == (0, 0)
    assert before is not None
    assert after.created is not None
    assert before < after.created
    assert await lab.publish("t.a", identity="one") == 1


async def test_the_last_message_of_a_subject_is_found(lab: Lab) -> None:
    await lab.stream()
    for subject in ("t.a.1", "t.b.1", "t.a.2", "t.a.1"):
        await lab.publish(subject, subject.encode(), identity=None)
    found = {name: (await lab.js.get_last_msg("T", name)).seq for name in ("t.a.1", "t.b.1", "t.a.*", "t.>")}
    assert found == {"t.a.1": 4, "t.b.1": 2, "t.a.*": 4, "t.>": 4}
    assert (await lab.js.get_last_msg("T", "t.b.1")).data == b"t.b.1"
    with pytest.raises(NotFoundError):
        await lab.js.get_last_msg("T", "t.c")


async def test_purged_to_a_position_the_stream_begins_there(lab: Lab) -> None:
    await lab.stream()
    for number in range(5):
        await lab.publish(f"t.{number}")
    await lab.js.purge_stream("T", seq=4)
    info = await lab.js.stream_info("T", subjects_filter="t.>")
    assert (info.state.first_seq, info.state.messages, info.state.subjects) == (4, 2, {"t.3": 1, "t.4": 1})
    await lab.js.purge_stream("T")
    info = await lab.js.stream_info("T", subjects_filter="t.>")
    assert (info.state.first_seq, info.state.last_seq, info.state.subjects) == (6, 5, None)


async def test_what_no_stream_keeps_reaches_current_subscribers_only(lab: Lab) -> None:
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(message.subject)  # type: ignore[attr-defined]

    await lab.client.publish("free.early.1", b"x")
    await lab.client.flush()
    async with lab.another_client() as other:
        subscription = await other.client.subscribe("free.early.*", cb=hear)
        await other.client.flush()
        await lab.client.publish("free.early.2", b"x")
        await lab.client.publish("free.late.2", b"x")
        await until(lambda: len(heard) == 1)
        await subscription.unsubscribe()
        await other.client.flush()
        await lab.client.publish("free.early.3", b"x")
        await lab.client.flush()
        await other.client.flush()
    assert heard == ["free.early.2"]
