"""The memory scene's sentences say what its rows carry, and nothing else."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.cli.up import DEMO_MEMORY_BYTES
from slackwater.demo import summary
from slackwater.demo.scenes import memory
from slackwater.demo.scenes.memory import MEMORY
from slackwater.demo.scenes.memory_picture import picture
from slackwater.demo.scenes.memory_result import ENDINGS, MemoryScene, MemoryTurn, failures, report, sentences
from slackwater.demo.machine.parent import ParentGroup
from slackwater.demo.scenes.result import SceneSummary
from slackwater.demo.summary import RunSummary
from slackwater.model.errors import Misconfigured

turns = st.builds(
    MemoryTurn,
    variant=st.sampled_from(["plain", "slackwater"]),
    prod_finished=st.booleans(),
    prod_mib=st.integers(0, 1000),
    slowest_mib_ms=st.floats(0, 1000),
    batch=st.lists(st.sampled_from(ENDINGS), max_size=4).map(tuple),
    levels=st.lists(st.tuples(st.floats(0, 30), st.integers(0, 1000), st.integers(0, 1000)), max_size=5).map(tuple),
)
scenes = st.builds(MemoryScene, limit_mib=st.just(1500), prod_end_mib=st.just(1000), turns=st.lists(turns, max_size=6))


@given(scenes)
def test_every_number_of_a_sentence_is_a_sum_of_its_rows(scene: MemoryScene) -> None:
    found = sentences(scene)
    variants = [one for one in ("plain", "slackwater") if scene.of(one)]
    assert len(found) == len(variants)
    for text, variant in zip(found, variants, strict=True):
        rows = scene.of(variant)
        finished = sum(row.prod_finished for row in rows)
        assert f"prod finished in {finished} of {len(rows)} turn" in text
        assert ("was killed" in text) == (finished < len(rows))
        sums = {how: sum(row.ended(how) for row in rows) for how in ENDINGS}
        numbers = [int(one) for one in re.findall(r"\d+", text.partition("batch pods:")[2])]
        assert numbers == [sums[how] for how in ("killed", "checkpoint", "running") if sums[how]]


@given(scenes)
def test_the_scene_fails_exactly_when_prod_or_a_batch_pod_is_killed_under_slackwater(scene: MemoryScene) -> None:
    ours = scene.of("slackwater")
    is_kept = all(row.prod_finished and not row.ended("killed") for row in ours)
    assert (failures(scene) == []) is is_kept


@given(scenes)
def test_the_table_has_a_row_per_turn(scene: MemoryScene) -> None:
    assert len(report(scene).rows) == len(scene.turns)
    assert all(len(row) == len(report(scene).columns) for row in report(scene).rows)


def test_the_parent_is_as_large_in_both_variants_and_too_small_for_all() -> None:
    assert DEMO_MEMORY_BYTES == memory.LIMIT_MIB * memory.MIB
    assert memory.BATCH_PODS * memory.BATCH_MIB + memory.PROD_END_MIB > memory.LIMIT_MIB
    assert memory.TARGET < memory.WATERLINE < 1


@given(scenes)
def test_the_picture_is_well_formed_and_says_how_the_last_turns_ended(scene: MemoryScene) -> None:
    drawn = picture(scene)
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - made by us a line above
    last = [scene.of(variant)[-1] for variant in ("plain", "slackwater") if scene.of(variant)]
    assert drawn.count("the kernel killed prod at") == sum(not turn.prod_finished for turn in last)
    assert drawn.count("prod finished") == sum(turn.prod_finished for turn in last)
    assert "nan" not in drawn


def run_of(scene: MemoryScene) -> RunSummary:
    entry = SceneSummary(**MEMORY.judged(scene).model_dump())
    return RunSummary(
        driver="linux", driver_note="", machine={"cpus": 2}, started_at=datetime(2026, 1, 1, tzinfo=UTC), seconds=50,
        workload={}, waterline=None, phases={}, scene="memory", memory=scene, restored_exactly=True,
        scenes={"memory": entry},
    )  # fmt: skip


def test_alone_it_ends_with_its_own_result_and_left_out_it_is_not_measured() -> None:
    turn = MemoryTurn(
        variant="slackwater", prod_finished=True, prod_mib=1000, slowest_mib_ms=1.0, batch=("checkpoint",)
    )
    scene = MemoryScene(limit_mib=1500, prod_end_mib=1000, turns=(turn,))
    assert summary.exit_status(run_of(scene)) == summary.EXIT_CLOSED
    lost = scene.model_copy(update={"turns": (turn.model_copy(update={"prod_finished": False}),)})
    assert summary.exit_status(run_of(lost)) == summary.EXIT_OPEN
    absent = run_of(MemoryScene(limit_mib=1500, prod_end_mib=1000, left_out="no memory controller is mounted"))
    assert summary.exit_status(absent) == summary.EXIT_NOT_MEASURABLE
    assert "no memory controller" in summary.why_not_measurable(absent)


def test_a_parent_without_a_limit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="not enabled"), ParentGroup.limited(Hierarchy(memory=tmp_path), "one", 1):
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Misconfigured, match="no memory controller"), ParentGroup.limited(Hierarchy(), "one", 1):
        pass
