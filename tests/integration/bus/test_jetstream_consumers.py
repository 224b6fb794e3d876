"""Pull consumers: what the bus relies on, on nats-server and on its twin."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from jetstream_lab import ACK_WAIT_SECONDS, PATIENCE_SECONDS, Lab, Pull, until
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from slackwater.bus.admin.stream_setup import consumer_configs, declare, stream_config
from slackwater.bus.admin.streams import load

NO_MESSAGES, TIMED_OUT, DELETED = "404 No Messages", "408 Request Timeout", "409 Consumer Deleted"
OTHER_START, NO_SUCH = 10012, 10014
SHORT_SECONDS = 0.2


async def test_a_request_waits_for_a_message_and_ends_when_there_are_no_more(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    pull = await lab.pull()
    await lab.publish("t.a")
    await until(lambda: pull.status is not None)
    assert (pull.brought, pull.status) == ([(1, 1)], NO_MESSAGES)


async def test_a_request_brings_all_that_waits_up_to_its_batch(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    for _ in range(5):
        await lab.publish("t.a")
    await until_pending(lab, 5)
    first, second = await lab.fetch(batch=3), await lab.fetch(batch=3)
    assert ([at for at, _ in first.brought], first.status) == ([1, 2, 3], None), "a full batch ends without a status"
    assert ([at for at, _ in second.brought], second.status) == ([4, 5], NO_MESSAGES)
    pending = [message.metadata.num_pending for message in first.messages + second.messages]
    assert pending == [4, 3, 2, 1, 0]
    assert [m.metadata.sequence.consumer for m in second.messages] == [4, 5]


async def until_pending(lab: Lab, count: int) -> None:
    """Wait until the consumer counts so many: it learns of a message after its publisher, but may deliver it before."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await lab.info()).num_pending != count:
            await asyncio.sleep(0.02)


async def test_an_idle_request_sends_heartbeats_and_times_out(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    pull = await lab.fetch(expires=3.0, idle_heartbeat=int(0.2e9))
    assert (pull.brought, pull.status) == ([], TIMED_OUT)
    assert pull.heartbeats > 0


async def test_messages_are_delivered_to_waiting_requests_in_turn(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    pulls = [await lab.pull(batch=2, no_wait=False) for _ in range(2)]
    for _ in range(4):
        await lab.publish("t.a")
    await until(lambda: all(len(pull.messages) == 2 for pull in pulls))
    assert [[at for at, _ in pull.brought] for pull in pulls] == [[1, 3], [2, 4]]


async def test_a_request_of_a_client_that_no_longer_listens_takes_nothing(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    async with lab.another_client() as other:
        await other.pull()
    await until_waiting(lab, 0)
    await lab.publish("t.a")
    assert (await lab.fetch()).brought == [(1, 1)]


async def until_waiting(lab: Lab, count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await lab.info()).num_waiting != count:
            await asyncio.sleep(0.02)


async def test_what_is_not_acknowledged_is_delivered_again_also_to_another_client(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer(ack_wait=ACK_WAIT_SECONDS)
    await lab.publish("t.a")
    await lab.publish("t.b")
    async with lab.another_client() as other:
        (first, second) = (await other.fetch()).messages
        await other.answer(first)
    again = await lab.fetch(batch=1)
    assert again.brought == [(second.metadata.sequence.stream, 2)]
    assert again.messages[0].metadata.timestamp == second.metadata.timestamp
    await lab.answer(again.messages[0])
    info = await lab.info()
    assert (info.num_ack_pending, info.num_redelivered, info.num_pending) == (0, 0, 0)


async def test_a_late_acknowledgement_counts_also_after_the_redelivery(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer(ack_wait=ACK_WAIT_SECONDS)
    await lab.publish("t.a")
    (first,) = (await lab.fetch()).messages
    again = await lab.fetch(batch=1)
    assert again.brought == [(1, 2)]
    await lab.answer(first)
    info = await lab.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 1)
    assert (await lab.fetch(expires=2 * ACK_WAIT_SECONDS)).brought == []


async def test_an_acknowledgement_of_a_removed_stream_counts_for_its_successor(lab: Lab) -> None:
    """JetStream compares stream, consumer and sequence only: a message may be settled that nothing has handled."""
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.old")
    (old,) = (await lab.fetch()).messages
    await lab.js.delete_stream("T")
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.new")
    assert (await lab.fetch()).messages[0].subject == "t.new"
    assert (await lab.info()).num_ack_pending == 1
    await lab.answer(old)
    assert (await lab.info()).num_ack_pending == 0


async def test_an_acknowledgement_of_what_was_not_delivered_yet_has_no_effect(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.a")
    await lab.publish("t.b")
    (first,) = (await lab.fetch(batch=1)).messages
    tokens = first.reply.split(".")
    tokens[5], tokens[6] = "2", "2"
    first.reply = ".".join(tokens)
    await lab.answer_unconfirmed(first)
    assert (await lab.fetch(batch=1)).brought == [(2, 1)]


async def test_refused_without_delay_it_is_delivered_again_at_once_and_before_new_ones(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.a")
    await lab.publish("t.b")
    (first,) = (await lab.fetch(batch=1)).messages
    await lab.answer(first, b"-NAK")
    assert (await lab.fetch()).brought == [(1, 2), (2, 1)]


async def test_refused_with_a_delay_it_is_delivered_again_afterwards(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.a")
    await lab.publish("t.b")
    later, soon = (await lab.fetch()).messages
    await lab.answer(later, b'-NAK {"delay": 3600000000000}')
    await lab.answer(soon, b'-NAK {"delay": 200000000}')
    assert (await lab.fetch(batch=1)).brought == [(2, 2)]
    assert (await lab.fetch(expires=SHORT_SECONDS)).brought == []


async def test_a_refusal_by_an_earlier_holder_takes_the_message_from_the_present_one(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.a")
    (first,) = (await lab.fetch()).messages
    await lab.answer(first, b"-NAK")
    assert (await lab.fetch(batch=1)).brought == [(1, 2)]
    await lab.answer(first, b"-NAK")
    assert (await lab.fetch(batch=1)).brought == [(1, 3)]


async def test_a_message_in_progress_is_not_delivered_again(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer(ack_wait=ACK_WAIT_SECONDS)
    await lab.publish("t.a")
    (message,) = (await lab.fetch()).messages
    waiting = await lab.pull(batch=1)
    while not await stays_in_progress(lab, message):
        message, waiting = await redelivered(waiting), await lab.pull(batch=1)
    assert waiting.brought == []
    await until(lambda: waiting.brought == [(1, message.metadata.num_delivered + 1)])


async def redelivered(pull: Pull) -> Msg:
    await until(lambda: len(pull.messages) == 1)
    return pull.messages[0]


async def stays_in_progress(lab: Lab, message: Msg) -> bool:
    """Extends the time for an answer to more than ACK_WAIT_SECONDS. False: this machine paused for as long itself, so
    that the server may have been told too late."""
    clock, pauses = asyncio.get_running_loop().time, list[float]()
    for _ in range(5):
        before = clock()
        await asyncio.sleep(ACK_WAIT_SECONDS / 4)
        await lab.answer(message, b"+WPI")
        pauses.append(clock() - before)
    return max(pauses) < ACK_WAIT_SECONDS


async def test_a_terminated_message_is_not_delivered_again(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer(ack_wait=ACK_WAIT_SECONDS)
    await lab.publish("t.a")
    (first,) = (await lab.fetch()).messages
    await lab.answer(first, b"+TERM")
    assert (await lab.fetch(expires=2 * ACK_WAIT_SECONDS)).brought == []
    assert (await lab.info()).num_ack_pending == 0


async def test_an_unacknowledged_message_that_the_stream_removes_is_settled(lab: Lab) -> None:
    await lab.stream(max_msgs_per_subject=1)
    await lab.consumer()
    await lab.publish("t.a")
    await lab.fetch()
    await lab.publish("t.a")
    await lab.publish("t.a")
    async with asyncio.timeout(PATIENCE_SECONDS):  # the consumer learns of a removal after the publisher
        while (info := await lab.info()).num_ack_pending:
            await asyncio.sleep(0.02)
    await until_pending(lab, 1)
    assert info.ack_floor.stream_seq == 1
    assert (await lab.fetch()).brought == [(3, 1)]


async def test_with_too_many_unacknowledged_only_redeliveries_pass(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer(max_ack_pending=2)
    for _ in range(4):
        await lab.publish("t.a")
    first = await lab.fetch(expires=SHORT_SECONDS)
    assert (first.brought, first.status) == ([(1, 1), (2, 1)], TIMED_OUT)
    for message in first.messages:
        await lab.answer(message, b"-NAK")
    again = await lab.fetch(batch=2)
    assert again.brought == [(1, 2), (2, 2)]
    waiting = await lab.pull(batch=1, expires=PATIENCE_SECONDS)
    await lab.answer(again.messages[0])
    await until(lambda: waiting.brought == [(3, 1)])


async def test_the_deliveries_of_a_message_are_not_limited(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.a")
    for count in range(1, 12):
        (message,) = (await lab.fetch(batch=1)).messages
        assert message.metadata.num_delivered == count
        await lab.answer(message, b"-NAK")


@pytest.mark.parametrize("ending", ["consumer", "stream"])
async def test_a_waiting_request_learns_that_its_consumer_was_deleted(lab: Lab, ending: str) -> None:
    await lab.stream()
    await lab.consumer()
    pull = await lab.pull()
    await until_waiting(lab, 1)  # the server takes requests up after it has answered a ping
    if ending == "consumer":
        await lab.js.delete_consumer("T", "c")
    else:
        await lab.js.delete_stream("T")
    await until(lambda: pull.status is not None)
    assert pull.status == DELETED
    later = await lab.fetch()
    assert later.had_no_responder


async def test_a_consumer_is_declared_again_unchanged_or_updated(lab: Lab) -> None:
    await lab.stream()
    await lab.consumer()
    await lab.publish("t.a")
    (message,) = (await lab.fetch()).messages
    await lab.answer(message)
    same = await lab.consumer()
    assert (same.ack_floor.stream_seq, same.num_pending) == (1, 0)
    assert (await lab.consumer(ack_wait=5)).config.ack_wait == 5
    assert await lab.refusal(lab.consumer(deliver_policy=DeliverPolicy.NEW)) == OTHER_START
    assert (await lab.info()).ack_floor.stream_seq == 1


async def test_consumers_start_where_their_declaration_says(lab: Lab) -> None:
    await lab.stream()
    for subject in ("t.a", "t.b", "t.a"):
        await lab.publish(subject)
    await lab.consumer("all")
    await lab.consumer("new", deliver_policy=DeliverPolicy.NEW)
    await lab.consumer("last", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="t.>")
    await lab.consumer("some", filter_subjects=["t.b", "t.c"])
    await lab.consumer("from", deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=2)
    await lab.publish("t.c")
    found = {name: [at for at, _ in (await lab.fetch(name)).brought] for name in ("all", "new", "last", "some", "from")}
    assert found == {"all": [1, 2, 3, 4], "new": [4], "last": [2, 3, 4], "some": [2, 4], "from": [2, 3, 4]}


async def test_a_start_after_the_end_leaves_out_what_comes_before_it(lab: Lab) -> None:
    await lab.stream()
    await lab.publish("t.a")
    await lab.consumer("late", deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=4)
    for _ in range(4):
        await lab.publish("t.a")
    assert [at for at, _ in (await lab.fetch("late")).brought] == [4, 5]


async def test_a_start_by_time_begins_with_the_first_message_stored_then(lab: Lab) -> None:
    await lab.stream()
    await lab.publish("t.a")
    await asyncio.sleep(0.05)
    await lab.publish("t.b")
    stored = (await lab.js.get_msg("T", 2)).time
    assert stored is not None
    since = stored - timedelta(milliseconds=10)
    for moment, delivered in ((since, 1), (datetime(1971, 1, 1, tzinfo=UTC), 0), (datetime(2200, 1, 1, tzinfo=UTC), 2)):
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=30,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=moment,
        )
        info = await lab.js.add_consumer("T", config)
        assert info.delivered.stream_seq == delivered


async def test_a_superseded_message_is_skipped_by_a_consumer_of_last_values(lab: Lab) -> None:
    await lab.stream(max_msgs_per_subject=1)
    for subject in ("t.a", "t.b", "t.c"):
        await lab.publish(subject)
    info = await lab.consumer("last", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="t.>")
    assert (info.num_pending, info.delivered.stream_seq) == (3, 0)
    await lab.publish("t.b")
    assert [at for at, _ in (await lab.fetch("last")).brought] == [1, 3, 4]


async def test_a_reader_without_acknowledgement_counts_everything_as_settled(lab: Lab) -> None:
    await lab.stream()
    for _ in range(3):
        await lab.publish("t.a", b"body", identity=None)
    config = ConsumerConfig(
        ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=30, headers_only=True, filter_subjects=["t.>"]
    )
    info = await lab.js.add_consumer("T", config)
    pull = await lab.fetch(info.name)
    assert [(m.data, (m.headers or {}).get("Nats-Msg-Size")) for m in pull.messages] == [(b"", "4")] * 3
    info = await lab.info(info.name)
    assert (info.num_ack_pending, info.delivered.consumer_seq, info.num_pending) == (0, 3, 0)


async def test_a_reader_that_asks_no_more_is_forgotten(lab: Lab) -> None:
    await lab.stream()
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=0.2)
    name = (await lab.js.add_consumer("T", config)).name
    async with asyncio.timeout(PATIENCE_SECONDS):
        while name in {info.name for info in await lab.js.consumers_info("T")}:
            await asyncio.sleep(0.05)
    assert await lab.refusal(lab.info(name)) == NO_SUCH


async def test_an_open_request_keeps_its_reader(lab: Lab) -> None:
    await lab.stream()
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=0.2)
    pull: Pull | None = None
    while pull is None or pull.had_no_responder:  # the reader was forgotten before the request came
        name = (await lab.js.add_consumer("T", config)).name
        pull = await lab.pull(name)
        await asyncio.sleep(0.8)
    await lab.publish("t.a")
    await until(lambda: pull.brought == [(1, 1)])


async def test_a_reader_with_a_name_of_its_own_is_replaced_by_declaring_it_again(lab: Lab) -> None:
    """As an agent reads its intents, which may use one consumer only."""
    await lab.stream(max_msgs_per_subject=1)
    for subject in ("t.a", "t.b"):
        await lab.publish(subject)
    config = ConsumerConfig(
        name="own",
        filter_subject="t.a",
        ack_policy=AckPolicy.NONE,
        mem_storage=True,
        inactive_threshold=30,
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
    )
    for _ in range(2):
        await lab.js.add_consumer("T", config)
        assert [m.subject for m in (await lab.fetch("own")).messages] == ["t.a"]
        await lab.js.delete_consumer("T", "own")


async def test_every_declared_stream_and_consumer_is_there_as_declared(lab: Lab) -> None:
    topology = load()
    await declare(lab.js, topology)
    await declare(lab.js, topology)
    for name, spec in topology.streams.items():
        info = await lab.js.stream_info(name)
        config, wanted = info.config, stream_config(name, spec)
        for key in ("storage", "discard", "max_bytes", "max_age", "max_msgs_per_subject", "duplicate_window"):
            assert getattr(config, key) == getattr(wanted, key), f"{name}: {key}"
        assert config.subjects == wanted.subjects
    for name, consumer in topology.consumers.items():
        for expected in consumer_configs(name, consumer):
            found = (await lab.info(str(expected.durable_name), topology.stream_of(name))).config
            for key in ("filter_subject", "filter_subjects", "ack_wait", "max_ack_pending", "max_deliver"):
                assert getattr(found, key) == getattr(expected, key), f"{expected.durable_name}: {key}"
            assert found.deliver_policy == expected.deliver_policy
    for name in topology.streams:
        await lab.js.delete_stream(name)
