"""Whatever interrupts a follower, its mirror ends in the true state; and it does no more than it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.api_server import MemoryApiServer
from tests.support.clock import FakeClock

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.kind_follower import FollowPace, KindFollower, ServerVersions
from slackwater.apiserver.mirror import Mirror, changes_between
from slackwater.apiserver.port import WatchChange, WatchEvent
from slackwater.apiserver.records import KINDS, NODES, PODS, PodRecord, WatchedKind

CPU = "slackwater.io/batch-cpu"


class Meter:
    def __init__(self) -> None:
        self.lists: list[tuple[str, str]] = []
        self.interruptions: list[tuple[str, str]] = []

    def listed(self, kind: str, reason: str) -> None:
        self.lists.append((kind, reason))

    def interrupted(self, kind: str, reason: str) -> None:
        self.interruptions.append((kind, reason))


class Scene:
    def __init__(self, kinds: Sequence[WatchedKind[Any]] = (PODS,), page_size: int = 2) -> None:
        self.server, self.clock, self.meter, self.inventory = MemoryApiServer(), FakeClock(), Meter(), Inventory()
        self.pace, self.beginning = FollowPace(page_size=page_size, longest_pause_seconds=8), self.server.snapshot()
        versions = ServerVersions()
        self.followers = [
            KindFollower(self.server, kind, self.inventory, self.clock, self.meter, self.pace, lambda: 1.0, versions)
            for kind in kinds
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(follower()) for follower in self.followers]
        try:
            await self.clock.advance(0)
            yield
            assert not [task for task in tasks if task.done()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def settle(self) -> None:
        """Longer than the longest pause, several times: a list that expired is begun anew."""
        for _ in range(4):
            await self.clock.advance(10)

    async def true_items(self, kind: WatchedKind[Any]) -> dict[str, Any]:
        page = await self.server.list_page(kind, 10_000)
        return {item.key: item for item in page.items}


def pod(name: str, node: str = "", amount: int = 0, phase: str = "Running") -> dict[str, Any]:
    requests = {CPU: str(amount)} if amount else {}
    return {
        "metadata": {"namespace": "a", "name": name},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": phase},
    }


NAMES = st.sampled_from("pqrst")
STEPS = st.one_of(
    st.tuples(
        st.just("put"),
        NAMES,
        st.sampled_from(["", "n1", "n2"]),
        st.integers(0, 3),
        st.sampled_from(["Running", "Failed"]),
    ),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("replace"), NAMES),
    st.tuples(st.sampled_from(["compact", "cut", "down", "up", "bookmarks", "turn", "wait"])),
    st.tuples(st.just("back")),
    st.tuples(st.sampled_from(["unserved", "served", "forbidden", "granted"])),
)


async def play(scene: Scene, step: tuple[Any, ...]) -> None:  # noqa: C901 - one line per step
    server = scene.server
    match step:
        case ("back",):  # to the beginning; the follower connects before the versions have caught up
            server.restore(scene.beginning)
            if not server.is_down:
                await scene.clock.advance(10)
        case ("put", name, node, amount, phase):
            server.put(PODS, pod(name, node, amount, phase))
        case ("delete" | "replace" as what, name):
            if f"a/{name}" in await known(server):
                server.delete(PODS, f"a/{name}")
                if what == "replace":
                    server.put(PODS, pod(name, "n1", 1))
        case ("compact",):
            server.compact()
        case ("cut",):
            server.cut()
        case ("down",):
            server.is_down = True
            server.cut()
        case ("up",):
            server.is_down = False
        case ("bookmarks",):
            server.bookmarks = not server.bookmarks
        case ("unserved",):
            server.unserved.add(PODS.plural)
            server.cut()
        case ("served",):
            server.unserved.clear()
        case ("forbidden",):
            server.forbidden.add(PODS.plural)
            server.cut()
        case ("granted",):
            server.forbidden.clear()
        case ("turn",):
            await asyncio.sleep(0)
        case ("wait",):
            await scene.clock.advance(1)


async def known(server: MemoryApiServer) -> set[str]:
    return {f"a/{name}" for name in "pqrst" if server.has(PODS, f"a/{name}")}


@given(st.lists(STEPS, max_size=40))
def test_any_history_ends_in_the_true_state(steps: list[tuple[Any, ...]]) -> None:
    async def history() -> None:
        scene = Scene()
        scene.server.put(PODS, pod("p", "n1", 2))
        async with scene.running():
            for step in steps:
                await play(scene, step)
            scene.server.is_down = False
            scene.server.unserved.clear()
            scene.server.forbidden.clear()
            await scene.settle()
            true = await scene.true_items(PODS)
            assert dict(scene.inventory.pods) == true
            assert {node: dict(scene.inventory.borrowed(node)) for node in ("n1", "n2")} == sums(true)

    asyncio.run(history())


async def test_an_error_is_over_as_soon_as_the_server_answers_again() -> None:
    """Also if nothing changes, and without a bookmark."""
    scene = Scene()
    scene.server.bookmarks = False
    scene.server.put(PODS, pod("p"))
    async with scene.running():
        (follower,) = scene.followers
        with scene.server.down():
            await scene.clock.advance(20)
            assert "does not answer" in follower.error
        await scene.clock.advance(scene.pace.longest_pause_seconds)
        assert follower.error == ""


async def test_a_watch_that_is_answered_and_cut_every_time_is_repeated_ever_more_rarely() -> None:
    scene = Scene()
    async with scene.running():
        before = scene.server.watches
        for _ in range(400):
            scene.server.cut()
            await scene.clock.advance(0.1)
        assert 5 < scene.server.watches - before < 20


def sums(pods: dict[str, PodRecord]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {"n1": {}, "n2": {}}
    for item in pods.values():
        for name, amount in item.borrowed if item.occupies else ():
            total[item.node][name] = total[item.node].get(name, 0) + amount
    return total


@given(
    st.lists(st.tuples(NAMES, st.integers(0, 2), st.integers(0, 2)), max_size=8),
    st.lists(st.tuples(NAMES, st.integers(0, 2), st.integers(0, 2)), max_size=8),
)
def test_changes_turn_one_state_into_the_other(
    one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]
) -> None:
    def state(parts: list[tuple[str, int, int]]) -> dict[str, PodRecord]:
        records = (
            PODS.parse({"metadata": {"name": name, "uid": f"u{uid}", "resourceVersion": str(v)}})
            for name, uid, v in parts
        )
        return {item.key: item for item in records}

    before, after = state(one), state(other)
    changed = dict(before)
    for change in changes_between(before, after):
        assert change.before != change.after
        if change.before is not None:
            assert changed.pop(change.before.key) == change.before
        if change.after is not None:
            assert change.after.key not in changed
            changed[change.after.key] = change.after
    assert changed == after


async def test_a_cut_watch_resumes_without_a_list() -> None:
    scene = Scene()
    async with scene.running():
        for number in range(5):
            scene.server.put(PODS, pod(f"p{number}"))
            scene.server.cut()
            scene.server.put(PODS, pod(f"q{number}"))
            await scene.settle()
        assert len(scene.inventory.pods) == 10
    assert (scene.server.lists, scene.meter.lists) == (1, [("pods", "first")])
    assert scene.server.watches == 6


async def test_bookmarks_spare_a_quiet_kind_the_list_after_a_compaction() -> None:
    scene = Scene(kinds=(PODS, NODES))
    async with scene.running():
        scene.server.put(NODES, {"metadata": {"name": "n"}})
        await scene.settle()
        scene.server.compact()
        scene.server.cut()
        await scene.settle()
    assert scene.meter.lists == [("pods", "first"), ("nodes", "first")]


async def test_deletions_during_an_expired_watch_are_computed() -> None:
    scene = Scene()
    scene.server.put(PODS, pod("p"))
    scene.server.put(PODS, pod("q"))
    async with scene.running():
        scene.server.is_down = True
        scene.server.cut()
        await scene.settle()
        scene.server.delete(PODS, "a/p")
        scene.server.compact()
        scene.server.is_down = False
        await scene.settle()
        assert set(scene.inventory.pods) == {"a/q"}
    assert scene.meter.lists == [("pods", "first"), ("pods", "expired")]
    assert {reason for _, reason in scene.meter.interruptions} == {"unavailable"}


async def test_a_server_that_came_back_older_is_listed_again_also_of_quiet_kinds() -> None:
    """The quiet kind was last read before the restored state; its watch would go on, without what was deleted since."""
    scene = Scene(kinds=(PODS, NODES))
    scene.server.put(PODS, pod("p"))
    async with scene.running():
        backup = scene.server.snapshot()
        scene.server.delete(PODS, "a/p")
        scene.server.put(NODES, {"metadata": {"name": "n1"}})
        scene.server.put(NODES, {"metadata": {"name": "n2"}})
        await scene.settle()
        scene.server.restore(backup)
        scene.server.put(NODES, {"metadata": {"name": "n3"}})  # at the version of the deletion
        await scene.settle()
        assert set(scene.inventory.pods) == {"a/p"}
        assert set(scene.inventory.nodes) == {"n3"}
        scene.server.cut()
        await scene.settle()
    assert sorted(scene.meter.lists) == [(k, r) for k in ("nodes", "pods") for r in ("first", "restored")]


async def test_an_unreachable_server_is_asked_ever_more_rarely_and_the_reason_is_kept() -> None:
    scene = Scene()
    scene.server.is_down = True
    async with scene.running():
        await scene.clock.advance(100)
        asked = len(scene.meter.interruptions)
        assert 10 < asked < 25
        assert scene.followers[0].error == "the API server does not answer"
        assert scene.inventory.unsynced() == [kind.plural for kind in KINDS]
        scene.server.is_down = False
        await scene.settle()
        assert scene.followers[0].error == ""
        assert "pods" not in scene.inventory.unsynced()


async def test_a_missing_right_is_reported_and_heals_when_it_is_granted() -> None:
    scene = Scene()
    scene.server.forbidden.add("pods")
    async with scene.running():
        await scene.settle()
        assert scene.followers[0].error == "pods is forbidden"
        scene.server.forbidden.clear()
        await scene.settle()
        assert scene.followers[0].error == ""


def test_the_last_state_of_a_deleted_object_under_a_reused_name_deletes_nothing() -> None:
    mirror: Mirror[PodRecord] = Mirror()
    now = PODS.parse({"metadata": {"name": "p", "uid": "new"}})
    mirror.replace([now])
    before = PODS.parse({"metadata": {"name": "p", "uid": "old"}})
    assert mirror.apply(WatchEvent(WatchChange.DELETED, "9", before)) == ()
    assert mirror.items == {"p": now}
