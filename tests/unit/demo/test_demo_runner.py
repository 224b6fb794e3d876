"""The runner: order of turns, policies that come back, and what ends a scene on a quiet and on a busy machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from invented_scene import DocumentStore, InventedTurn, scene_of, stage_of

from slackwater.demo import runner
from slackwater.demo.machine.other_work import OtherWork
from slackwater.demo.report import Turn
from slackwater.demo.runner import SceneRun
from slackwater.demo.scene import DemoScene, SceneVariant
from slackwater.demo.schedule import MOST_ROUNDS, PlannedScene
from slackwater.demo.summary import SceneSummary
from slackwater.demo.verdict import BrokenPromise
from slackwater.model.errors import Misconfigured, Unavailable

BUSY = OtherWork(cpus=1.5, busiest="make (pid 7)")
PLAIN, OURS = InventedTurn(count=0), InventedTurn(count=1)


async def run(
    monkeypatch: pytest.MonkeyPatch,
    scene: DemoScene[Any],
    rounds: int = 1,
    other: OtherWork = OtherWork(),  # noqa: B008 - frozen
    store: DocumentStore | None = None,
    deadline: float | None = None,
    later: Sequence[PlannedScene] = (),
) -> tuple[SceneSummary, list[Turn[Any]]]:
    @contextmanager
    def measured() -> Any:
        yield SimpleNamespace(found=other)

    monkeypatch.setattr(runner, "measured", measured)
    planned = PlannedScene(scene, rounds)
    return await SceneRun(stage_of(store or DocumentStore()), planned, deadline, later=later).perform()


async def test_variants_alternate_and_a_sequence_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    _, turns = await run(monkeypatch, scene_of(iter([PLAIN, OURS] * 3)), 3)
    assert [turn.variant for turn in turns] == ["plain", "ours", "ours", "plain", "plain", "ours"]
    _, turns = await run(monkeypatch, scene_of(iter([PLAIN, OURS] * 3), is_sequence=True), 2)
    assert [turn.variant for turn in turns] == ["plain", "ours"] * 2


@pytest.mark.parametrize("last", [OURS, Unavailable("no answer"), Misconfigured("no controller")])
async def test_policies_are_in_force_in_their_turn_and_back_after_it(
    monkeypatch: pytest.MonkeyPatch, last: InventedTurn | Exception
) -> None:
    before = {("nodeqos", "default"): {"spec": {"mode": "throttle", "rules": [1]}}}
    store = DocumentStore(dict(before))
    await run(monkeypatch, scene_of(iter([PLAIN, last])), store=store)
    assert store.documents == before
    assert store.written == [
        ("nodeqos", "default", {"mode": "throttle", "rules": [1]}),
        ("podqos", "default", {"allowed": True}),
        ("nodeqos", "default", {"mode": "evict", "rules": [1]}),
    ]


async def test_a_scene_without_policy_writes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DocumentStore()
    scene = scene_of(iter([PLAIN, OURS]), variants=(SceneVariant("plain", "a"), SceneVariant("ours", "b")))
    entry, _ = await run(monkeypatch, scene, store=store)
    assert (store.written, entry.is_shown, entry.failures) == ([], True, ())


@pytest.mark.parametrize(
    ("error", "other", "left_out", "failed"),
    [
        (Unavailable("no pod came"), OtherWork(), "", "invented: no pod came"),
        (Unavailable("no pod came"), BUSY, "no pod came, while other processes used 1.5 of 2 CPU", ""),
        (BrokenPromise("left behind"), BUSY, "", "invented: left behind"),
        (Misconfigured("no memory controller"), OtherWork(), "no memory controller", ""),
    ],
)
async def test_what_ends_a_scene_early_fails_it_unless_the_machine_is_busy_or_cannot_show_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception, other: OtherWork, left_out: str, failed: str
) -> None:
    entry, _ = await run(monkeypatch, scene_of(iter([PLAIN, error])), other=other)
    assert (bool(entry.left_out), bool(entry.failures)) == (bool(left_out), bool(failed))
    assert left_out in entry.left_out
    assert failed in "".join(entry.failures)
    assert entry.is_shown == (not left_out)


async def test_a_machine_that_lacks_something_leaves_the_scene_out(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, turns = await run(monkeypatch, scene_of(iter([]), memory_mib=10**9, disk_mib=10**9))
    assert "MiB of memory are available, it needs 1,000,000,000" in entry.left_out
    assert "MiB of disk are free, it needs 1,000,000,000" in entry.left_out
    assert (entry.failures, turns) == ((), [])


async def test_a_late_run_leaves_rounds_and_scenes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    later = [PlannedScene(scene_of(iter([])), 1)]
    _, turns = await run(monkeypatch, scene_of(iter([PLAIN, OURS] * 3)), 3, deadline=now + 4.5, later=later)
    assert len(turns) == 2
    entry, turns = await run(monkeypatch, scene_of(iter([])), 3, deadline=now + 1)
    assert (entry.left_out.startswith("the run is late"), turns) == (True, [])


async def test_time_that_is_over_gives_further_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = scene_of(iter([PLAIN, OURS] * MOST_ROUNDS))
    _, turns = await run(monkeypatch, scene, deadline=time.monotonic() + 60)
    assert len(turns) == 2 * MOST_ROUNDS


@pytest.mark.parametrize(("taken", "is_shown"), [(0, False), (1, False), (2, True)])
async def test_a_scene_that_outlasts_the_run_is_shown_if_both_variants_had_a_turn(
    monkeypatch: pytest.MonkeyPatch, taken: int, is_shown: bool
) -> None:
    @asynccontextmanager
    async def opened(_stage: object) -> AsyncIterator[Any]:
        done = 0

        async def run_turn(variant: str) -> InventedTurn:
            nonlocal done
            if done == taken:
                await asyncio.sleep(3600)
            done += 1
            return OURS if variant == "ours" else PLAIN

        yield run_turn

    scene = scene_of(iter([]), opened=opened, setup_seconds=0.0, round_seconds=0.05)
    entry, turns = await run(monkeypatch, scene, 2, deadline=time.monotonic() + 0.4)
    assert (len(turns), entry.is_shown, bool(entry.left_out), entry.failures) == (taken, is_shown, not is_shown, ())
