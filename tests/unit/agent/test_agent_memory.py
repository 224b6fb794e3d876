"""Memory limits of pods: merged, eased, bounded on v1, protected on v2, reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_fakes import pod
from agent_world import World
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.adapters.linux.knob_files import DirectoryFiles
from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.controls.memory_high import (
    GRAIN_BYTES,
    MARGIN_BYTES,
    MEMORY_HIGH,
    MEMORY_PAUSE,
    MOST_RECLAIMED_BYTES,
    MemoryHigh,
    MemoryPause,
    bounded_v1,
    bounded_v2,
    eased,
    hard_limit,
    lowest,
)
from slackwater.agent.domain.controls.memory_protection import MEMORY_LOW, MEMORY_MIN, PROTECTIONS
from slackwater.agent.domain.desired_state import DesiredState, MemoryLevel
from slackwater.agent.domain.knobs import Knob, Tree
from slackwater.agent.domain.observation import Instant
from slackwater.agent.domain.oom_scores import OOM_SCORE_ADJ
from slackwater.agent.domain.waterlines import Waterline, above
from slackwater.agent.domain.weights import Policy
from slackwater.model.tiers import Tier

MIB = 1 << 20
GIB = 1 << 30
amounts = st.integers(0, 1 << 40)


def state(writer: str, high: int, received: float = 0.0, protection: str = "none") -> DesiredState:
    throttles = (MemoryLevel("a", high, "d"),) if high else ()
    return DesiredState(
        writer, 1, received, 10.0, Policy.BY_TIER, memory_throttles=throttles, memory_protection=protection
    )


@given(high=amounts, held=amounts, cache=amounts)
def test_a_bound_on_v1_never_comes_near_what_the_pod_cannot_drop(high: int, held: int, cache: int) -> None:
    bound = bounded_v1(high, held + cache, cache)
    assert bound >= held + MARGIN_BYTES
    assert 4 * bound >= 5 * held
    assert bound >= high
    assert bound >= held + cache - MOST_RECLAIMED_BYTES
    assert bound % GRAIN_BYTES == 0
    least = max(high, held + MARGIN_BYTES, held + held // 4, held + cache - MOST_RECLAIMED_BYTES)
    assert bound < least + GRAIN_BYTES


@given(high=amounts, held=amounts, cache=amounts)
def test_a_level_on_v2_is_raised_only_for_a_pod_that_could_not_go_on(high: int, held: int, cache: int) -> None:
    """Above memory.high, a pod without page cache waits seconds for each few pages."""
    level = bounded_v2(high, held + cache, cache)
    assert level >= high
    assert 10 * level >= 11 * held - 10
    if high >= held + held // 10:
        assert level == high
    else:
        assert level < held + held // 10 + GRAIN_BYTES


@given(high=st.integers(MIB, GIB), goal=st.integers(MIB, 16 * GIB))
def test_a_growing_pod_on_v2_is_let_through_step_by_step(high: int, goal: int) -> None:
    held, steps = 0, 0
    while held < goal:
        held, steps = min(goal, bounded_v2(high, held, 0)), steps + 1
        assert steps < 100


@given(high=st.integers(1, GIB), cache=st.integers(0, 1 << 36), held=st.integers(0, 64 * MIB))
def test_repeated_bounds_reach_the_requested_level(high: int, cache: int, held: int) -> None:
    used, steps = held + cache, 0
    while used > (bound := bounded_v1(high, used, used - held)):
        used, steps = bound, steps + 1
    assert used <= max(high, held + MARGIN_BYTES) + GRAIN_BYTES
    assert steps <= cache // (MOST_RECLAIMED_BYTES - GRAIN_BYTES) + 1


@given(first=st.integers(1, GIB), second=st.integers(1, GIB))
def test_the_lowest_of_several_writers_wins(first: int, second: int) -> None:
    machine = MachineView(4000, 1.0, capacity_bytes=4 * GIB)
    assert lowest([state("v", first), state("w", second)], machine) == {"a": min(first, second)}


@given(high=st.integers(1, GIB), seconds=st.floats(0, 100))
def test_a_lapsed_limit_rises_and_ends(high: int, seconds: float) -> None:
    machine = MachineView(4000, 10.0 + seconds, capacity_bytes=4 * GIB)
    assert eased(high, seconds, 4 * GIB) >= high + GIB
    merged = lowest([state("w", high)], machine)
    risen = eased(high, seconds, 4 * GIB)
    assert merged == ({"a": risen} if risen < 4 * GIB else {})
    assert merged == {} or seconds < 3


def test_protected_pods_and_limits_above_the_hard_limit_are_left_alone() -> None:
    batch = pod("a", Tier.BATCH)
    at_limit = {"a": hard_limit(batch)}
    for control in (MemoryHigh(), MemoryPause()):
        view = MachineView(4000, 1.0, capacity_bytes=4 * GIB)
        assert set(control.desired({"a": hard_limit(batch) - 1}, [batch], view)) == {"a"}
        assert control.desired(at_limit, [batch], view) == {}
        assert control.desired({"a": 1}, [batch], MachineView(4000, 1.0, frozenset("a"))) == {}


def v1_files(folder: Path, used: int, cache: int, *, is_paused: bool = False) -> DirectoryFiles:
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"cache 1\ntotal_inactive_file {cache}\ntotal_active_file 0\n")
    (folder / "memory.oom_control").write_text(f"oom_kill_disable {int(is_paused)}\nunder_oom 0\n")
    return DirectoryFiles(str(folder))


def test_the_pause_ends_where_the_pod_reaches_its_own_hard_limit(tmp_path: Path) -> None:
    file = MEMORY_PAUSE.v1
    assert file is not None
    assert file.render(400 * MIB, v1_files(tmp_path, 200 * MIB, 0)) == "1"
    assert file.render(400 * MIB, v1_files(tmp_path, 390 * MIB, 300 * MIB)) == "1"
    files = v1_files(tmp_path, 390 * MIB, 0, is_paused=True)
    assert file.render(400 * MIB, files) == "0"
    assert file.shown(files.read("memory.oom_control"), files) == "1"


def test_the_text_of_a_level_on_v1_follows_the_usage_of_the_pod(tmp_path: Path) -> None:
    file = MEMORY_HIGH.v1
    assert file is not None
    assert file.render(128 * MIB, v1_files(tmp_path, 300 * MIB, 280 * MIB)) == str(128 * MIB)
    assert file.render(128 * MIB, v1_files(tmp_path, 300 * MIB, 0)) == str(384 * MIB)


@pytest.mark.parametrize(("kind", "knob"), [("low", MEMORY_LOW), ("min", MEMORY_MIN)])
def test_requested_memory_of_prod_is_protected_up_to_the_root(kind: str, knob: object) -> None:
    pods = [pod("p", Tier.PROD), pod("q", Tier.PROD), pod("b", Tier.BATCH)]
    view = MachineView(4000, 1.0)
    for control in PROTECTIONS:
        merged = control.merge([state("v", 0), state("w", 0, protection=kind)], view)
        values = control.desired(merged, pods, view)
        request = pods[0].request.memory_bytes
        expected = {Tree.ROOT: 2 * request, Tier.PROD: 2 * request, "p": request, "q": request}
        assert values == (expected if control.knob is knob else {})


@given(st.sampled_from([*Tier]), st.sampled_from([*Tier]))
def test_the_kernel_ends_lower_tiers_first(one: Tier, other: Tier) -> None:
    order = [Tier.PROD, Tier.MID, Tier.BATCH, Tier.FREE]
    assert (OOM_SCORE_ADJ[one] < OOM_SCORE_ADJ[other]) is (order.index(one) < order.index(other))
    assert -1000 < OOM_SCORE_ADJ[one] <= 1000


@pytest.mark.parametrize(
    ("metric", "instant"),
    [
        ("prod_memory_refaults", Instant(prod_refaults=2.0)),
        ("prod_memory_pressure", Instant(prod_memory_pressure=2.0)),
        ("node_memory_usage_ratio", Instant(node_memory_bytes=200)),
    ],
)
def test_memory_has_local_waterlines(metric: str, instant: Instant) -> None:
    assert above([Waterline(metric, 1.5)], instant, 1000, 100)
    assert not above([Waterline(metric, 2.0)], instant, 1000, 100)
    assert not above([Waterline(metric, 0.0)], Instant(), 1000, 100)


async def test_a_document_sets_a_level_and_its_end_gives_it_back(world: World) -> None:
    world.driver.add(pod("a", Tier.BATCH))
    knob = Knob("a", "memory_high")
    async with world.running():
        throttle = {"pod_uid": "a", "memory_high_bytes": 4096, "decision_id": "d1"}
        await world.declare(memory_throttles=[throttle])
        await world.clock.advance(1)
        assert world.driver.knobs[knob] == "4096"
        await world.declare()
        await world.clock.advance(1)
        assert world.driver.knobs[knob] == "max"
