"""Reports count by rosters: published first, joined by digest, awaited for a bounded time, never guessed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock
from tests.support.reports import GIB, distribution, pod, pod_usage, report, usage

from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.port import Done, Received, Settlement
from slackwater.bus.rosters.known_rosters import NODE_LOADS_AT_ONCE
from slackwater.bus.rosters.roster_publisher import REPEAT_SECONDS
from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.envelope import Event, event_of
from slackwater.events.measures import PodUsage, Usage
from slackwater.events.pod_columns import by_columns
from slackwater.events.pods_rostered import PodsRostered, RosterChanges
from slackwater.events.report_columns import PAGE, InvalidColumns, check, columns_of
from slackwater.events.rosters import SLOTS, roster_of
from slackwater.events.serialized import written
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable
from slackwater.telemetry.metrics import process_meters

CONSUMER, GUARD = "console-usage-reported", "ensurance-usage-reported"


@dataclass
class Stage:
    """A broker, an agent and a reader of reports, each with a bus of its own."""

    clock: FakeClock = field(default_factory=FakeClock)
    seen: list[UsageReported] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker = MemoryBroker(clock=self.clock)
        self.agent = MemoryBus(self.broker)
        self.reader = MemoryBus(self.broker)

    async def report(self, sequence: int, *uids: str, boot_epoch: str = "boot-1", bus: MemoryBus | None = None) -> None:
        pods = [pod_usage(uid, cpu_milli=100 + number) for number, uid in enumerate(uids)]
        at = EPOCH + timedelta(seconds=sequence)
        await (bus or self.agent).publish(event_of(
            report("n", sequence, at, pods=pods, boot_epoch=boot_epoch), source="agent/n", time=at
        ))  # fmt: skip

    @asynccontextmanager
    async def reading(self, bus: MemoryBus | None = None, consumer: str = CONSUMER) -> AsyncIterator[None]:
        async def handler(batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
            self.seen.extend(received.event.data for received in batch)
            return [Done()] * len(batch)

        async with (bus or self.reader).consume(UsageReported, consumer, handler):
            yield

    @asynccontextmanager
    async def following(self) -> AsyncIterator[list[PodsRostered]]:
        """Yields the rosters that a watch sees."""
        seen: list[PodsRostered] = []

        async def note(event: Event[PodsRostered]) -> None:
            seen.append(event.data)

        async with self.reader.watch(PodsRostered, note):
            yield seen

    async def settle(self, bus: MemoryBus | None = None) -> None:
        """Until nothing is due any more, redeliveries included."""
        for _ in range(12):
            await (bus or self.reader).idle()
            await self.clock.advance(0.25)

    def stored(self, stream: str, type_: str) -> list[dict[str, Any]]:
        found = self.broker.after(stream, f"sw.v1.{type_}.", 0)
        return [json.loads(message.body) for _, message in found]

    @property
    def uids(self) -> list[list[str]]:
        return [[usage.pod.uid for usage in data.pods] for data in self.seen]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def missed(reader: str) -> float:
    """What the metric of this process counts by now."""
    counter = BusMetrics(process_meters()).roster_missing.labels(reader)
    return float(counter._value.get())


async def test_identities_travel_once_and_reports_name_them(stage: Stage) -> None:
    for sequence in (1, 2, 3):
        await stage.report(sequence, "a", "b")
    (rostered,) = stage.stored("ROSTERS", PodsRostered.TYPE)
    assert (rostered["node"], rostered["boot_epoch"], rostered["sequence"]) == ("n", "boot-1", 1)
    reports = stage.stored("USAGE", UsageReported.TYPE)
    assert {sent["roster"] for sent in reports} == {rostered["roster"]["digest"]}
    assert not any("own_roster" in sent or '"a"' in json.dumps(sent) for sent in reports)


async def test_a_reader_sees_the_reports_that_were_published(stage: Stage) -> None:
    async with stage.reading():
        await stage.report(1, "a", "b")
        await stage.report(2, "b")
        await stage.report(3, "c", "b")
        await stage.settle()
    assert stage.uids == [["a", "b"], ["b"], ["c", "b"]]
    assert [usage.usage.cpu_milli.avg for usage in stage.seen[2].pods] == [100, 101]


async def test_a_roster_is_stored_before_the_report_that_counts_by_it(stage: Stage) -> None:
    order: list[str] = []
    store = stage.broker.store

    def noted(stream: str, message: Any) -> int:
        order.append(stream)
        return store(stream, message)

    stage.broker.store = noted  # type: ignore[method-assign]
    await stage.report(1, "a")
    await stage.report(2, "a")
    await stage.report(3, "b")
    assert order == ["ROSTERS", "USAGE", "USAGE", "ROSTERS", "USAGE"]


async def test_a_report_is_not_published_before_its_roster_is_stored(stage: Stage) -> None:
    stage.broker.away = True
    with pytest.raises(Unavailable):
        await stage.report(1, "a")
    stage.broker.away = False
    await stage.report(2, "a")
    assert [sent["sequence"] for sent in stage.stored("ROSTERS", PodsRostered.TYPE)] == [2]
    assert [sent["sequence"] for sent in stage.stored("USAGE", UsageReported.TYPE)] == [2]


async def test_reports_that_waited_while_the_pods_changed_are_all_read(stage: Stage) -> None:
    """The reader comes when the last pods are others already: the rosters before are in their slots."""
    names = [[f"p{number}", f"q{number}"] for number in range(SLOTS)]
    for sequence, uids in enumerate(names, 1):
        await stage.report(sequence, *uids)
    async with stage.reading():
        await stage.settle()
    assert stage.uids == names


async def test_a_roster_that_comes_back_is_published_again_in_its_slot(stage: Stage) -> None:
    """Readers of rosters would else go on with the one in between."""
    async with stage.following() as seen:
        for sequence, uid in enumerate("aabbab", 1):
            await stage.report(sequence, uid)
            await stage.reader.idle()
    assert [(rostered.sequence, *rostered.roster.uids) for rostered in seen] == [(1, "a"), (3, "b"), (5, "a"), (6, "b")]
    assert [rostered.slot for rostered in seen] == [0, 1, 0, 1]


async def test_a_roster_says_what_changed(stage: Stage) -> None:
    async with stage.following() as seen:
        for sequence, uids in enumerate(("ab", "bc", "bc"), 1):
            await stage.report(sequence, *uids)
        relabelled = replace(pod_usage("c"), pod=replace(pod("c"), labels={"team": "x"}))
        data = report("n", 4, EPOCH, pods=[pod_usage("b"), relabelled])
        await stage.agent.publish(event_of(data, source="agent/n", time=EPOCH))
        await stage.clock.advance(REPEAT_SECONDS)
        await stage.agent.publish(
            event_of(data.model_copy(update={"sequence": 5}), source="agent/n", time=stage.clock.now())
        )
        await stage.reader.idle()
    assert [rostered.changes for rostered in seen] == [
        RosterChanges(),
        RosterChanges(added=("c",), removed=("a",)),
        RosterChanges(changed=("c",)),
        RosterChanges(),
    ]
    sent = stage.stored("ROSTERS", PodsRostered.TYPE)
    assert "changes" not in sent[-1], "a repetition says only what runs"


async def test_a_report_that_waited_takes_no_roster_back(stage: Stage) -> None:
    """It is published after its successors: its roster is stored for its readers, and the last one stays the last."""
    async with stage.following() as seen:
        await stage.report(1, "a")
        await stage.report(3, "c")
        await stage.report(2, "b")
        await stage.report(4, "c")
        await stage.reader.idle()
    assert [(rostered.sequence, *rostered.roster.uids) for rostered in seen] == [(1, "a"), (3, "c"), (2, "b")]


async def test_an_agent_that_restarts_in_a_process_says_again_what_runs(stage: Stage) -> None:
    async with stage.following() as seen:
        await stage.report(7, "a")
        await stage.reader.idle()
        await stage.report(1, "a", boot_epoch="boot-2")
        await stage.reader.idle()
    assert [(rostered.boot_epoch, rostered.sequence) for rostered in seen] == [("boot-1", 7), ("boot-2", 1)]


async def test_the_oldest_roster_gives_way_and_its_reports_are_a_gap(stage: Stage) -> None:
    before = missed(CONSUMER)
    for sequence in range(1, SLOTS + 2):
        await stage.report(sequence, f"p{sequence}")
    async with stage.reading():
        await stage.settle()
    assert stage.uids == [[f"p{sequence}"] for sequence in range(2, SLOTS + 2)]
    assert missed(CONSUMER) == before + 1


async def test_an_agent_that_restarts_in_between_publishes_its_roster_again(stage: Stage) -> None:
    await stage.report(7, "a", "b")
    again = MemoryBus(stage.broker)
    await stage.report(1, "b", "c", boot_epoch="boot-2", bus=again)
    (rostered,) = stage.stored("ROSTERS", PodsRostered.TYPE)
    assert (rostered["boot_epoch"], rostered["roster"]["uids"]) == ("boot-2", ["b", "c"]), "in the same slot"
    async with stage.reading():
        await stage.settle()
    assert stage.uids == [["b", "c"]], "the first report counts by a roster that is gone: it is a gap, not a guess"


async def test_a_report_whose_roster_is_late_waits_for_it(stage: Stage) -> None:
    data = report("n", 1, EPOCH, pods=[pod_usage("a")])
    roster = data.roster()
    body = data.columns(roster, 0).model_dump_json()
    async with stage.reading():
        stage.broker.store("USAGE", encode(written(event_of(data, source="agent/n", time=EPOCH), body)))
        await stage.reader.idle()
        assert stage.seen == []
        rostered = PodsRostered(node="n", boot_epoch="boot-1", sequence=1, rostered_at=EPOCH, slot=0, roster=roster)
        stage.broker.store("ROSTERS", encode(event_of(rostered, source="agent/n", time=EPOCH)))
        await stage.settle()
    assert stage.uids == [["a"]]


async def test_a_report_whose_roster_never_comes_is_counted_and_left_out(stage: Stage) -> None:
    before = missed(CONSUMER)
    await stage.report(1, "a", "b")
    stage.broker.begin_anew("ROSTERS")
    async with stage.reading():
        await stage.settle()
    assert stage.seen == []
    assert missed(CONSUMER) == before + 1
    assert stage.broker.dead_letters == []


async def test_a_report_that_met_an_outage_and_whose_roster_never_comes_is_left_out(stage: Stage) -> None:
    """Its consumer has fewer deliveries than a report waits for its roster elsewhere."""
    async with stage.reading(consumer=GUARD):
        await stage.report(1, "a")
        stage.broker.begin_anew("ROSTERS")
        stage.broker.away = True
        await stage.reader.idle()
        stage.broker.away = False
        await stage.settle()
    assert (stage.seen, stage.broker.dead_letters) == ([], [])


async def test_reports_that_name_rosters_in_vain_read_a_few(stage: Stage) -> None:
    """A report of 1 kB may name a roster of 512 KiB, which each reader would read for it, four times."""
    await stage.report(1, "a")
    reads = 0
    rosters = stage.reader._rosters
    read = rosters._read

    async def counted(node: str, slot: int) -> Event[PodsRostered] | None:
        nonlocal reads
        reads += 1
        return await read(node, slot)

    rosters._read = counted
    async with stage.reading():
        for sequence in range(2, 102):
            data = report("n", sequence, EPOCH, pods=[pod_usage(f"p{sequence}")])
            body = data.columns(data.roster(), 0).model_dump_json()
            stage.broker.store("USAGE", encode(written(event_of(data, source="agent/n", time=EPOCH), body)))
            await stage.reader.idle()
        assert reads == NODE_LOADS_AT_ONCE
        await stage.settle()
        await stage.report(200, "b")
        await stage.settle()
    assert stage.uids == [["a"], ["b"]], "the next report with a roster is read"


async def test_a_roster_of_another_content_is_never_taken(stage: Stage) -> None:
    """It has as many pods, so only the digest tells them apart."""
    await stage.report(1, "a", "b")
    rostered = PodsRostered(
        node="n", boot_epoch="boot-1", sequence=2, rostered_at=EPOCH, slot=0, roster=roster_of([pod("b"), pod("a")], ())
    )
    stage.broker.store("ROSTERS", encode(event_of(rostered, source="agent/n", time=EPOCH)))
    async with stage.reading():
        await stage.settle()
    assert stage.seen == []


async def test_after_a_broker_lost_its_state_rosters_are_published_again(stage: Stage) -> None:
    await stage.report(1, "a")
    stage.broker.begin_anew("ROSTERS")
    await stage.report(2, "a")
    assert [sent["sequence"] for sent in stage.stored("ROSTERS", PodsRostered.TYPE)] == [2]


async def test_a_roster_is_repeated_after_a_while(stage: Stage) -> None:
    await stage.report(1, "a")
    (first,) = stage.broker.after("ROSTERS", f"sw.v1.{PodsRostered.TYPE}.", 0)
    await stage.clock.advance(REPEAT_SECONDS)
    await stage.report(2, "a")
    (again,) = stage.broker.after("ROSTERS", f"sw.v1.{PodsRostered.TYPE}.", 0)
    assert again[0] > first[0]


async def test_a_watch_reads_the_roster_once_and_leaves_out_what_has_none(stage: Stage) -> None:
    seen: list[list[str]] = []

    async def note(event: Event[UsageReported]) -> None:
        seen.append([usage.pod.uid for usage in event.data.pods])

    before = missed(UsageReported.TYPE)
    async with stage.reader.watch(UsageReported, note):
        await stage.report(1, "a")
        await stage.reader.idle()
        stage.broker.begin_anew("ROSTERS")
        lost = report("n", 2, EPOCH, pods=[pod_usage("b")])
        body = lost.columns(lost.roster(), 1).model_dump_json()
        stage.broker.store("USAGE", encode(written(event_of(lost, source="agent/n", time=EPOCH), body)))
        await stage.reader.idle()
    assert seen == [["a"]]
    assert missed(UsageReported.TYPE) == before + 1


async def test_a_stream_shows_reports_with_their_pods(stage: Stage) -> None:
    async with stage.reader.follow([UsageReported]) as stream:
        await stage.report(1, "a", "b")
        (item,) = await stream.next()
    shown = json.loads(item.data().model_dump_json())  # type: ignore[union-attr]
    assert [usage["pod"]["uid"] for usage in shown["pods"]] == ["a", "b"]
    assert shown["pods"][1]["usage"]["cpu_milli"]["avg"] == 101


async def test_pods_described_alike_are_one_object(stage: Stage) -> None:
    async with stage.reading():
        await stage.report(1, "a", "b")
        await stage.settle()
        await stage.report(2, "b", "c")
        await stage.settle()
    first, second = stage.seen
    assert second.pods[0].pod is first.pods[1].pod


# ---- columns

PODS: tuple[PodUsage, ...] = (
    pod_usage("a"),
    replace(
        pod_usage("b"), usage=usage(0, 0, samples=0), cpu_limit_milli=0, throttled_ratio=0.25, memory_high_bytes=GIB,
        original_memory_high_bytes=2 * GIB, reclaimable_bytes=0, unread="permission_denied",
    ),
    replace(
        pod_usage("c"), usage=replace(usage(3), cpu_milli=replace(distribution(10), p50=4, max=90, last=2, count=7))
    ),
)  # fmt: skip


def test_columns_keep_every_measure_of_every_pod() -> None:
    sent = report("n", 1, EPOCH, pods=PODS)
    assert tuple(decode_body(UsageReported, sent.body().encode()).pods) == PODS


def test_an_absent_measure_is_an_absent_column() -> None:
    columns = json.loads(report("n", 1, EPOCH, pods=PODS[:1]).body())["pods"]
    assert columns == {
        "cpu_milli": {"avg": [500], "count": [5]},
        "memory_bytes": {"avg": [GIB // 4 // PAGE], "unit": PAGE},
    }


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("column", ["cpu_milli.avg", "cpu_milli.last", "throttled_ratio", "reclaimable_bytes"])
def test_a_column_of_another_length_than_the_roster_is_refused(column: str, change: int) -> None:
    sent = json.loads(report("n", 1, EPOCH, pods=PODS).body())
    holder, (*way, last) = sent["pods"], column.split(".")
    for step in way:
        holder = holder[step]
    holder[last] = holder[last][:change] if change < 0 else [*holder[last], 1]
    with pytest.raises(Undecodable, match="for 3 pods") as refusal:
        decode_body(UsageReported, json.dumps(sent).encode())
    assert (refusal.value.code, refusal.value.field) == ("invalid_payload", "pods")


def test_a_report_counts_by_no_roster_of_another_number_of_pods() -> None:
    with pytest.raises(InvalidColumns):
        check(columns_of(PODS), 2)
    with pytest.raises(InvalidColumns):
        check(columns_of(PODS), 4)


@pytest.mark.parametrize(("column", "value"), [("p50", -501), ("last", -501), ("max", 2**50)])
def test_differences_that_leave_the_bounds_of_a_machine_are_refused(column: str, value: int) -> None:
    sent = json.loads(report("n", 1, EPOCH, pods=PODS[:1]).body())
    sent["pods"]["cpu_milli"][column] = [value]
    with pytest.raises(Undecodable):
        decode_body(UsageReported, json.dumps(sent).encode())


def test_an_unread_limit_of_no_pod_is_refused() -> None:
    sent = json.loads(report("n", 1, EPOCH, pods=PODS).body())
    sent["pods"]["unread"][0]["place"] = 3
    with pytest.raises(Undecodable):
        decode_body(UsageReported, json.dumps(sent).encode())


def test_an_own_roster_is_the_one_that_the_report_names() -> None:
    sent = json.loads(report("n", 1, EPOCH, pods=PODS).body())
    with pytest.raises(Undecodable, match="own_roster"):
        decode_body(UsageReported, json.dumps({**sent, "roster": "another"}).encode())


def test_the_digest_is_that_of_the_content() -> None:
    pods = [pod("a"), pod("b")]
    assert roster_of(pods, ()).digest == roster_of([replace(one) for one in pods], ()).digest
    changed = [replace(pods[0], priority=1), pods[1]]
    others = [roster_of(pods[::-1], ()), roster_of(pods, [pod("c")]), roster_of(changed, ())]
    assert len({roster_of(pods, ()).digest, *(roster.digest for roster in others)}) == 4


@pytest.mark.parametrize(("cpu", "memory"), [(5, 5), (5, 0), (0, 5), (0, 0), (5, 4)])
def test_samples_of_memory_travel_where_they_are_not_those_of_cpu(cpu: int, memory: int) -> None:
    counted = [
        replace(used, usage=Usage(replace(distribution(9), count=cpu), replace(distribution(4096), count=memory)))
        for used in PODS[:2]
    ]
    sent = report("n", 1, EPOCH, pods=counted)
    pods = decode_body(UsageReported, sent.body().encode()).pods
    assert tuple(pods) == tuple(counted)
    arrays = by_columns(decode_body(UsageReported, sent.body().encode()).pods)
    assert (arrays.cpu[:, -1].tolist(), arrays.memory[:, -1].tolist()) == ([cpu] * 2, [memory] * 2)
    assert ("count" in json.loads(sent.body())["pods"]["memory_bytes"]) == (cpu != memory)
