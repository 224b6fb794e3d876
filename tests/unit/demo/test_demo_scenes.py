"""Each scene's promises: kept by a turn as it should be, broken by each way in which it should not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.demo.machine.other_work import OtherWork
from slackwater.demo.machine.page_cache import MIB, CacheGroup, CacheWatch
from slackwater.demo.machine.parent import limited_parent
from slackwater.demo.machine.request_bench import MeasuredStretch
from slackwater.demo.picture import picture
from slackwater.demo.report import Turn, report
from slackwater.demo.scene import DemoScene
from slackwater.demo.scenes import cache, cpu, cpus, fleet, lend, memory, moves, quotas
from slackwater.demo.scenes.catalog import SCENES
from slackwater.demo.scenes.lend import place
from slackwater.model.quantities import Resources

STRETCH = MeasuredStretch(seconds=3.5, requests=200, errors=0, p99_ms=20.0, pressure=0.02, prod_cpu=0.5, batch_cpu=0.9)
LENT = lend.LendTurn(room_milli=1100, placed=4, placed_milli=1000, core_seconds=3.2, stretch=STRETCH)
GROWN = memory.MemoryTurn(False, 1000, 8.0, ("checkpoint", "checkpoint", "running", "running"), ((0.1, 200, 1000),))
READ = cache.CacheTurn(0.4, 0.3, 0.0, 200.0, 6, 500, 1.5, True, ((0.25, 0.4, None), (0.5, None, 500)))
SURGED = cpu.CpuTurn(STRETCH, 0, batch_yields=True, is_restored=True)
PINNED = cpus.CpusTurn(STRETCH, frozenset({0}), frozenset({1}), is_given_back=True)
MIXED = replace(PINNED, service_cpus=frozenset({0, 1}), batch_cpus=frozenset({0, 1}))
SHARED = quotas.QuotaTurn(0, 2, 2, 0, 0, 0, 0, ("running",) * 4, None, ((0.1, 0, 1000),))
BORROWED = replace(SHARED, borrower_running=4, borrower_waiting=0, lent_milli=1000, borrowed_milli=1000)
TAKEN_BACK = replace(
    SHARED, lender_running=2, borrower_waiting=0, owed_milli=1000, reclaimed=2, waited_seconds=1.2,
    endings=("running", "running", "checkpoint", "checkpoint"),
)  # fmt: skip
MOVED = moves.MoveTurn("node-a", "node-b", {"outcome": "moved", "downtimeSeconds": 1.2}, 3.1, 1.3, 40, 0, "node-b")
TIDE = fleet.FleetTurn(0.05, 4.8, 2.0, is_throttled=True, is_restored=True, levels=((0.5, 3.0),))
STAYED = {"outcome": "old_pod_runs", "reason": "Unschedulable", "message": "0 of 2 nodes take it: 1 headroom"}

KEPT: list[tuple[DemoScene[Any], str, Any]] = [
    (lend.LEND, "requests", replace(LENT, room_milli=0, placed=0, placed_milli=0, core_seconds=0.0)),
    (lend.LEND, "offers", LENT),
    (lend.LEND, "offers", replace(LENT, placed=0, placed_milli=0, core_seconds=0.0, full="make used 1.5 of 2 CPU")),
    (memory.MEMORY, "plain", replace(GROWN, prod_killed=True, batch=("killed",) * 4)),
    (memory.MEMORY, "slackwater", GROWN),
    (cache.CACHE, "slackwater", READ),
    (cache.CACHE, "slackwater", replace(READ, limit_mib=None, seconds_to_limit=None, pressed_seconds=2)),
    (cache.CACHE, "plain", replace(READ, limit_mib=None)),
    (cpu.CPU, "plain", replace(SURGED, batch_yields=False)),
    (cpu.CPU, "slackwater", replace(SURGED, throttles=2, stretch=replace(STRETCH, errors=200, p99_ms=2004.0))),
    (quotas.QUOTAS, "fixed", SHARED),
    (quotas.QUOTAS, "elastic", BORROWED),
    (quotas.QUOTAS, "asked", TAKEN_BACK),
    (moves.MOVES, "moved", MOVED),
    (moves.MOVES, "moved", replace(MOVED, status=STAYED, answers_from="node-a")),
    (cpus.CPUS, "shared", MIXED),
    (cpus.CPUS, "own", PINNED),
    (fleet.FLEET, "slackwater", TIDE),
    (fleet.FLEET, "plain", replace(TIDE, is_throttled=False)),
]
BROKEN: list[tuple[DemoScene[Any], str, Any, str]] = [
    (lend.LEND, "requests", LENT, "no batch pod is placed without an offer"),
    (lend.LEND, "offers", replace(LENT, has_decision=False), "an offer with its decision comes"),
    (lend.LEND, "offers", replace(LENT, placed=0, placed_milli=0, core_seconds=0), "what prod leaves free is offered"),
    (lend.LEND, "offers", replace(LENT, room_milli=900), "no more is placed than there is room for"),
    (lend.LEND, "offers", replace(LENT, core_seconds=0.0), "pods on the offer run"),
    (lend.LEND, "offers", replace(LENT, core_seconds=3.9), "batch uses no more than was placed"),
    (memory.MEMORY, "slackwater", replace(GROWN, prod_killed=True), "prod is not killed"),
    (memory.MEMORY, "slackwater", replace(GROWN, batch=("killed", "checkpoint")), "without its checkpoint"),
    (memory.MEMORY, "slackwater", replace(GROWN, batch=("running",) * 4), "batch is evicted with grace"),
    (cache.CACHE, "slackwater", replace(READ, limit_mib=None), "batch gets a memory limit"),
    (cache.CACHE, "slackwater", replace(READ, is_restored=False), "every memory limit is put back"),
    (cpu.CPU, "weights", replace(SURGED, batch_yields=False), "batch yields to prod by its weight"),
    (cpu.CPU, "slackwater", replace(SURGED, is_restored=False), "every quota of batch is put back"),
    (cpu.CPU, "slackwater", replace(SURGED, stretch=replace(STRETCH, prod_cpu=0.0)), "prod runs in its surge"),
    (cpus.CPUS, "shared", PINNED, "without its class it shares all"),
    (cpus.CPUS, "own", MIXED, "no batch process runs on the service's CPU"),
    (cpus.CPUS, "own", replace(PINNED, service_cpus=frozenset()), "no batch process runs on the service's CPU"),
    (cpus.CPUS, "own", replace(PINNED, service_cpus=frozenset({0, 2})), "the service has one CPU"),
    (cpus.CPUS, "own", replace(PINNED, is_given_back=False), "batch gets every CPU back"),
    (quotas.QUOTAS, "fixed", BORROWED, "team-b is held to its half"),
    (quotas.QUOTAS, "elastic", SHARED, "team-b borrows what team-a leaves idle"),
    (quotas.QUOTAS, "elastic", replace(BORROWED, lent_milli=500), "what is lent is what is borrowed"),
    (quotas.QUOTAS, "asked", replace(TAKEN_BACK, lender_running=1), "team-a gets its min back"),
    (quotas.QUOTAS, "asked", replace(TAKEN_BACK, reclaimed=1), "as many jobs are reclaimed as are asked for"),
    (quotas.QUOTAS, "asked", replace(TAKEN_BACK, endings=("running",) * 4), "reclaimed jobs keep a checkpoint"),
    (quotas.QUOTAS, "asked", replace(TAKEN_BACK, endings=("killed", *TAKEN_BACK.endings)), "no job is killed"),
    (
        moves.MOVES,
        "moved",
        replace(MOVED, status={**STAYED, "message": "1 taints"}),
        "with the service on the other node",
    ),
    (moves.MOVES, "moved", replace(MOVED, status={}), "with the service on the other node"),
    (moves.MOVES, "moved", replace(MOVED, answers_from="node-a"), "after a move the new pod answers"),
    (moves.MOVES, "moved", replace(MOVED, status={"outcome": "moved"}), "a move states its downtime"),
    (moves.MOVES, "moved", replace(MOVED, mixed=2), "the old pod never answers beside the new one"),
    (fleet.FLEET, "slackwater", replace(TIDE, is_throttled=False), "batch gets a quota in the surge"),
    (fleet.FLEET, "slackwater", replace(TIDE, is_restored=False), "every quota is put back after the surge"),
]


def failures(scene: DemoScene[Any], variant: str, turn: Any) -> tuple[str, ...]:
    return report(scene, [Turn(variant, turn, OtherWork())], 2).failures


@pytest.mark.parametrize(("scene", "variant", "turn"), KEPT)
def test_a_turn_as_it_should_be_keeps_every_promise(scene: DemoScene[Any], variant: str, turn: Any) -> None:
    assert failures(scene, variant, turn) == ()


@pytest.mark.parametrize(("scene", "variant", "turn", "promise"), BROKEN)
def test_each_promise_is_broken_by_what_it_is_about(
    scene: DemoScene[Any], variant: str, turn: Any, promise: str
) -> None:
    assert promise in "".join(failures(scene, variant, turn))


def test_every_promise_of_every_scene_can_be_broken() -> None:
    told = [text for scene, variant, turn, _ in BROKEN for text in failures(scene, variant, turn)]
    for scene in (*SCENES, fleet.FLEET):
        for promise in scene.promises:
            assert any(f"{scene.name}: not kept: {promise.text} (" in text for text in told)


@pytest.mark.parametrize("scene", [*SCENES, fleet.FLEET])
def test_every_scene_draws_its_turns_and_names_its_variants(scene: DemoScene[Any]) -> None:
    turns = [Turn(variant, turn, OtherWork()) for kept, variant, turn in KEPT if kept is scene]
    drawn = picture(scene, turns)
    assert scene.title.replace("'", "&#x27;") in drawn
    assert "nan" not in drawn
    assert {name for name in scene.compared if name} <= {variant.name for variant in scene.variants}
    assert any(column.goal for column in scene.columns)


@given(st.integers(-100, 4000), st.integers(0, 1 << 33), st.integers(0, 20), st.integers(1, 1000))
def test_a_placer_stays_within_its_room(cpu_milli: int, memory_bytes: int, waiting: int, pod_milli: int) -> None:
    placed = place(Resources(cpu_milli, memory_bytes), waiting, Resources(pod_milli, 64 << 20))
    assert 0 <= placed <= waiting
    assert placed == 0 or (placed * pod_milli <= cpu_milli and placed * (64 << 20) <= memory_bytes)


def test_the_parents_are_too_small_for_all_and_hold_prod_without_batch() -> None:
    assert memory.PROD_END_MIB < memory.LIMIT_MIB < memory.PROD_END_MIB + memory.BATCH_PODS * memory.BATCH_MIB
    assert cache.PROD_MIB < cache.LIMIT_MIB < cache.PROD_MIB + cache.BATCH_PODS * cache.BATCH_MIB


@pytest.mark.parametrize("pure_v2", [False, True])
def test_limits_and_refaults_are_read_as_the_kernel_shows_them(tmp_path: Path, *, pure_v2: bool) -> None:
    group, page = CacheGroup(tmp_path, pure_v2), os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "memory.stat").write_text("workingset_refault_file 3\ntotal_workingset_refault_file 5\n")
    assert group.refault_bytes() == (3 if pure_v2 else 5) * page
    (tmp_path / "memory.high").write_text("max\n")
    (tmp_path / "memory.limit_in_bytes").write_text("4096\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert group.limits() == (("max\n",) if pure_v2 else ("4096\n", "oom_kill_disable 0"))


def test_a_watch_tells_when_limits_fell_and_what_prod_read_again(tmp_path: Path) -> None:
    free, held = (("max\n",), ("max\n",)), ((f"{300 * MIB}\n",), ("max\n",))
    groups = [CacheGroup(tmp_path / name, pure_v2=True) for name in ("batch-1", "batch-2")]
    watch = CacheWatch(CacheGroup(tmp_path, pure_v2=True), dict(zip(groups, free, strict=True)), 600)
    watch.readings = [(second / 2, held if second >= 4 else free, 20 * MIB * min(second, 4)) for second in range(9)]
    assert (watch.lowered_at(), watch.limit_mib(1.9), watch.limit_mib(4.0)) == (2.0, None, 900)
    assert (watch.refault_mib(0, 2), watch.refault_mib(2, 4)) == (40.0, 0.0)
    assert watch.seconds_above(16) == 2
    watch.readings = [(at, held, 0) for at, _, _ in watch.readings]
    assert (watch.lowered_at(), watch.limit_mib(0.0)) == (0.0, 900), "a limit that was there before the watch"


class FilledHierarchy(Hierarchy):
    """Fills what it makes, as the kernel does."""

    def make_directory(self, directory: Path) -> None:
        directory.mkdir()
        for name in ("memory.max", "memory.swap.max", "cgroup.subtree_control", "cgroup.procs"):
            (directory / name).write_text("")


def test_programs_of_a_plain_parent_have_memory_counted_on_v2(tmp_path: Path) -> None:
    with limited_parent(FilledHierarchy(unified=tmp_path, memory=tmp_path, pure_v2=True), 7) as parent:
        assert (parent.directory / "memory.max").read_text() == "7"
        assert (parent.directory / "cgroup.subtree_control").read_text() == "+memory"
        for file in parent.directory.iterdir():
            file.unlink()
    assert list(tmp_path.iterdir()) == []
