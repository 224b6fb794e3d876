"""What turns say: table, comparisons, broken promises and the picture, all from the declaration of a scene."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_scene import InventedTurn, scene_of

from slackwater.demo.machine.other_work import OtherWork
from slackwater.demo.picture import picture
from slackwater.demo.report import Turn, report
from slackwater.demo.scenes import memory
from slackwater.demo.verdict import Word

SCENE = scene_of(iter([]))
RECT = "{http://www.w3.org/2000/svg}rect"
BUSY = OtherWork(cpus=1.5, busiest="make (pid 7)")
records = st.builds(
    InventedTurn, ms=st.one_of(st.none(), st.floats(0, 1e5)), count=st.integers(0, 9), is_restored=st.booleans()
)
all_turns = st.lists(
    st.builds(Turn, variant=st.sampled_from(["plain", "ours"]), record=records, other=st.just(OtherWork())), max_size=8
)


def turns(*ms: tuple[float, float], other: OtherWork = OtherWork()) -> list[Turn[Any]]:  # noqa: B008 - frozen
    """Rounds of the latencies without and with it; no job runs without it, one with it."""
    rounds = [
        (Turn("plain", InventedTurn(plain, 0), other), Turn("ours", InventedTurn(ours, 1), other)) for plain, ours in ms
    ]
    return [turn for pair in rounds for turn in pair]


@given(all_turns)
def test_a_row_per_turn_a_comparison_per_compared_column_and_a_failure_per_broken_promise(
    taken: list[Turn[Any]],
) -> None:
    found = report(SCENE, taken, 2)
    assert len(found.rows) == len(found.turns) == len(taken)
    assert {len(row) for row in found.rows} <= {len(found.columns)}
    assert [compared.figure for compared in found.comparisons] == ["latency, ms", "jobs"]
    broken = sum(not turn.record.is_restored for turn in taken)
    broken += sum(turn.variant == "ours" and not turn.record.count for turn in taken)
    assert len(found.failures) == broken
    assert all(compared.word is not None for compared in found.comparisons)


def test_three_rounds_tell_a_latency_and_one_round_a_count() -> None:
    latency, jobs = report(SCENE, turns((30, 10), (31, 11), (29, 12)), 2).comparisons
    assert (latency.without, latency.with_slackwater, latency.word) == (
        "30.0 (29.0 to 31.0)",
        "11.0 (10.0 to 12.0)",
        "better",
    )
    latency, jobs = report(SCENE, turns((30, 10)), 2).comparisons
    assert (latency.word, latency.why, jobs.word) == (Word.TOO_FEW, "1 turn without, 1 with", Word.BETTER)


def test_a_disturbed_turn_makes_a_latency_too_few_to_tell_and_never_a_failure() -> None:
    found = report(SCENE, turns((30, 10), (31, 11), (29, 12), other=BUSY), 2)
    latency, jobs = found.comparisons
    assert (latency.word, jobs.word, found.failures) == (Word.TOO_FEW, Word.BETTER, ())
    assert latency.why == "other processes used 1.5 of 2 CPU, most of it make (pid 7)"
    same = [Turn(variant, InventedTurn(count=1), BUSY) for variant in ("plain", "ours")]
    assert report(SCENE, same, 2).comparisons[1].word is Word.TOO_FEW, "equal counts had no chance to differ"


@pytest.mark.parametrize("other", [OtherWork(cpus=0.2), OtherWork(stolen_cpus=0.06)])
def test_a_little_other_work_disturbs_nothing(other: OtherWork) -> None:
    assert other.disturbance(2) == ""
    assert report(SCENE, turns((30, 10), (31, 11), (29, 12), other=other), 2).comparisons[0].word is Word.BETTER


def test_what_the_host_takes_disturbs() -> None:
    assert OtherWork(stolen_cpus=0.07).disturbance(2) == "the host took 0.07 of 2 CPU (steal)"


def test_a_broken_promise_names_the_turn_and_what_was_seen() -> None:
    taken = [Turn("plain", InventedTurn(count=0), OtherWork()), Turn("ours", InventedTurn(count=0), BUSY)]
    assert report(SCENE, taken, 2).failures == ("invented: not kept: a job runs (turn 2, with it: 0 jobs)",)


def test_a_note_is_said_once() -> None:
    taken = [Turn("plain", InventedTurn(ms=None), OtherWork())] * 2
    assert report(SCENE, taken, 2).notes == ("nothing was measured",)


@given(all_turns)
def test_a_picture_is_well_formed_within_its_frame_and_has_a_bar_per_turn(taken: list[Turn[Any]]) -> None:
    root = ElementTree.fromstring(picture(SCENE, taken))  # noqa: S314 - drawn here
    _, _, width, height = (float(word) for word in root.attrib["viewBox"].split())
    for element in root.iter():
        for name, most in (("x", width), ("y", height), ("x1", width), ("y2", height)):
            if name in element.attrib:
                assert 0 <= float(element.attrib[name]) <= most
        for name in ("width", "height"):
            assert math.isfinite(float(element.attrib.get(name, 0)))
    bars = [bar for bar in root.iter(RECT) if bar.attrib["height"] == "16"]
    assert len(bars) == 2 * len(taken)


def test_the_longer_bar_is_the_larger_value() -> None:
    root = ElementTree.fromstring(picture(SCENE, turns((30, 10))))  # noqa: S314 - drawn here
    bars = [float(bar.attrib["width"]) for bar in root.iter(RECT) if bar.attrib["height"] == "16"]
    assert bars[0] == pytest.approx(3 * bars[1], rel=0.01)


def test_counts_of_memory_are_told_on_a_busy_machine() -> None:
    """What the kernel kills follows from memory, however busy the CPUs are: equal counts are the same there."""
    same = [Turn(variant, InventedTurn(count=1), BUSY) for variant in ("plain", "ours")]
    latency, jobs = report(scene_of(iter([]), needs_quiet_cpu=False), same, 2).comparisons
    assert (latency.word, jobs.word) == (Word.TOO_FEW, Word.SAME)
    assert not memory.MEMORY.needs_quiet_cpu
