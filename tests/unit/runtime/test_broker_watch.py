"""A broker that answers and stores nothing is detected, reported, and restarted if it is embedded."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.events.node_described import NodeDescribed
from slackwater.runtime.broker_watch import PAUSE_SECONDS, STUCK_SECONDS, BrokerWatch
from slackwater.telemetry.metrics import process_meters


@dataclass
class Scene:
    trouble: str = ""
    missing: str = ""
    now: float = 0.0
    room: bool = True
    restarts: list[float] = field(default_factory=list)
    unread: UnreadSubjects = field(default_factory=lambda: UnreadSubjects(process_meters()))

    async def restart(self) -> None:
        self.restarts.append(self.now)

    def watch(self) -> BrokerWatch:
        return BrokerWatch(self, restart=self.restart, has_room=lambda: self.room, monotonic=lambda: self.now)

    async def pass_seconds(self, watch: BrokerWatch, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.now += 1
            await watch.check()


async def test_a_broker_that_stores_is_ready_and_left_alone() -> None:
    scene = Scene()
    watch = scene.watch()
    await scene.pass_seconds(watch, 100)
    assert [check.ok for check in await watch.checks()] == [True]
    assert scene.restarts == []


async def test_readiness_says_what_the_broker_did_not_store() -> None:
    scene = Scene("stream STATE did not confirm")
    check = (await scene.watch().checks())[0]
    assert (check.ok, check.detail) == (False, "stream STATE did not confirm")


async def test_a_missing_stream_is_reported_and_no_reason_to_restart_the_broker() -> None:
    scene = Scene(missing="stream INTENTS is not there")
    watch = scene.watch()
    await scene.pass_seconds(watch, 100)
    check = (await watch.checks())[0]
    assert (check.ok, check.detail, scene.restarts) == (False, "stream INTENTS is not there", [])


async def test_it_is_restarted_when_it_has_lasted_and_not_again_at_once() -> None:
    scene = Scene("nothing is stored")
    watch = scene.watch()
    await scene.pass_seconds(watch, STUCK_SECONDS)
    assert scene.restarts == []
    await scene.pass_seconds(watch, 2)
    assert len(scene.restarts) == 1
    await scene.pass_seconds(watch, PAUSE_SECONDS - 3)
    assert len(scene.restarts) == 1
    await scene.pass_seconds(watch, 5)
    assert len(scene.restarts) == 2


async def test_a_short_trouble_does_not_add_up_with_the_next() -> None:
    scene = Scene()
    watch = scene.watch()
    for _ in range(10):
        scene.trouble = "slow"
        await scene.pass_seconds(watch, STUCK_SECONDS - 1)
        scene.trouble = ""
        await scene.pass_seconds(watch, 1)
    assert scene.restarts == []


async def test_on_a_full_disk_it_waits_for_room() -> None:
    scene = Scene("nothing is stored", room=False)
    watch = scene.watch()
    await scene.pass_seconds(watch, 100)
    assert scene.restarts == []
    scene.room = True
    await scene.pass_seconds(watch, 1)
    assert len(scene.restarts) == 1


async def test_an_external_broker_is_reported_and_not_restarted() -> None:
    scene = Scene("nothing is stored")
    watch = BrokerWatch(scene, monotonic=lambda: scene.now)
    await scene.pass_seconds(watch, 100)
    assert not (await watch.checks())[0].ok


async def test_readiness_names_what_cannot_be_read_and_does_not_depend_on_it() -> None:
    scene = Scene()
    assert scene.unread.decoded(NodeDescribed, Message("sw.v1.node.described.7.n1", {}, b"{}")) is None
    store, unread = await scene.watch().checks()
    assert (store.ok, unread.ok, unread.name) == (True, True, "bus-unread")
    assert "sw.v1.node.described.7.n1 (missing_attribute)" in unread.detail
