"""The cache scene's sentences say what its rows carry; its programs note what they did."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.demo.narrator import actions_words
from slackwater.demo.scenes import cache
from slackwater.demo.scenes.cache_picture import picture
from slackwater.demo.scenes.cache_result import (
    PLAIN,
    SLACKWATER,
    SLOWED,
    CacheMoment,
    CacheScene,
    CacheTurn,
    failures,
    not_measurable,
    report,
    sentences,
)
from slackwater.demo.scenes.cache_watch import CacheWatch, measured_turn
from slackwater.demo.scenes.memory import LIMIT_MIB
from slackwater.demo.machine.page_cache import MIB, CacheGroup, drop_cache, level_bytes, write_file
from slackwater.demo.machine.parent import ParentGroup
from slackwater.demo.programs.reread import BlockRead, reads_of
from slackwater.demo.scenes.scene import Stage
from slackwater.demo.programs.stream import Progress, progress_of
from slackwater.model.errors import Unavailable
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.waterline.nodeqos import NodeQos

latencies = st.floats(0.01, 500).map(lambda one: round(one, 3))
moments = st.builds(
    CacheMoment, seconds=st.floats(0, 20), p99_ms=st.none() | latencies, limit_mib=st.none() | st.integers(0, 1200)
)


def turns(variant: str) -> st.SearchStrategy[CacheTurn]:
    is_ours = variant == SLACKWATER
    return st.builds(
        CacheTurn,
        variant=st.just(variant),
        p99_ms=latencies,
        end_p99_ms=latencies,
        end_refault_mib=st.integers(0, 400),
        end_batch_mib=st.integers(0, 2000),
        limit_mib=st.none() | st.integers(0, 1200) if is_ours else st.none(),
        seconds_to_limit=st.none() | st.floats(0, 10) if is_ours else st.none(),
        is_restored=st.booleans() if is_ours else st.none(),
        moments=st.lists(moments, max_size=5).map(tuple),
    )


rounds = st.tuples(turns("alone"), turns(PLAIN), turns(SLACKWATER))
scenes = st.builds(
    CacheScene,
    limit_mib=st.just(1500),
    prod_mib=st.just(1000),
    batch_pods=st.just(2),
    batch_mib=st.just(400),
    disk_mib=st.none() | st.integers(1, 3000),
    wanted_mib=st.just(1000),
    turns=st.lists(rounds, max_size=3).map(lambda found: tuple(turn for one in found for turn in one)),
)


@given(scenes)
def test_every_number_of_a_sentence_is_in_its_rows(scene: CacheScene) -> None:
    cells = {cell for row in report(scene).rows for cell in row}
    counts = {str(number) for number in range(len(scene.of(SLACKWATER)) + 1)}
    sizes = {"1000", f"{scene.disk_mib or 0:.0f}"}
    for text in sentences(scene):
        numbers = re.findall(r"\d+\.\d+|\d+", text.replace("p99", ""))
        assert set(numbers) <= cells | counts | sizes


@given(scenes)
def test_the_rounds_in_which_prod_was_faster_are_counted_and_said_only_where_batch_slows_it(scene: CacheScene) -> None:
    said = [text for text in sentences(scene) if "was lower with Slackwater" in text]
    pairs = list(zip(scene.of(PLAIN), scene.of(SLACKWATER), strict=True))
    lower = sum(ours.end_p99_ms < plain.end_p99_ms for plain, ours in pairs)
    assert bool(said) is (bool(pairs) and not not_measurable(scene))
    assert all(f"in {lower} of {len(pairs)} round" in text for text in said)


@given(scenes)
def test_a_slow_disk_is_said_exactly_where_it_gives_less_than_batch_asks_for(scene: CacheScene) -> None:
    is_slow = scene.disk_mib is not None and scene.disk_mib < scene.wanted_mib
    assert any("bottleneck" in text for text in sentences(scene)) is is_slow


@given(scenes)
def test_a_limit_that_stays_fails_the_scene_and_a_missing_one_where_it_was_needed(scene: CacheScene) -> None:
    found = failures(scene)
    ours = scene.of(SLACKWATER)
    assert ("cache: not every memory limit was restored" in found) is any(one.is_restored is False for one in ours)
    is_shown = not not_measurable(scene)
    missing = any(one.limit_mib is None for one in ours)
    assert ("cache: batch got no memory limit under Slackwater" in found) is (is_shown and missing)


def turn(variant: str, p99: float, **fields: object) -> CacheTurn:
    known = {"variant": variant, "p99_ms": p99, "end_p99_ms": p99, "end_refault_mib": 0.0}
    return CacheTurn.model_validate(known | fields)


def scene_of(*found: CacheTurn) -> CacheScene:
    return CacheScene(limit_mib=1500, prod_mib=1000, batch_pods=2, batch_mib=400, turns=found)


def test_it_fails_where_prod_is_no_faster_and_is_not_measurable_where_nothing_slows_it() -> None:
    ours = turn(SLACKWATER, 5.0, limit_mib=400, is_restored=True)
    assert failures(scene_of(turn("alone", 1.0), turn(PLAIN, 6.0), ours)) == []
    assert failures(scene_of(turn("alone", 1.0), turn(PLAIN, 4.0), ours)) == [
        "cache: prod's p99 is 5.00 ms with Slackwater and 4.00 ms without"
    ]
    calm = scene_of(turn("alone", 1.0), turn(PLAIN, 0.99 * SLOWED), ours)
    assert failures(calm) == []
    assert report(calm).not_measurable == (not_measurable(calm),)
    assert "nothing to protect" in not_measurable(calm)


@given(scenes)
def test_the_table_has_a_row_per_turn_with_a_cell_per_column(scene: CacheScene) -> None:
    shown = report(scene)
    assert len(shown.rows) == len(scene.turns)
    assert {len(row) for row in shown.rows} <= {len(shown.columns)}


@given(scenes)
def test_the_picture_is_well_formed_and_has_a_curve_per_variant(scene: CacheScene) -> None:
    drawn = picture(scene)
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - made by us a line above
    assert "nan" not in drawn
    for variant, title in (("alone", "prod alone"), (PLAIN, "plain"), (SLACKWATER, "beside batch, Slackwater")):
        assert (f">{title}" in drawn or f", {title}<" in drawn) is bool(scene.of(variant))


def test_everything_fits_without_batch_and_not_with_it() -> None:
    assert cache.PROD_MIB < LIMIT_MIB < cache.PROD_MIB + cache.BATCH_PODS * cache.BATCH_MIB
    memory = NodeQos.model_validate(_document("nodeqos")).spec.memory.bounds()
    floors = cache.BATCH_PODS * max(memory.min_bytes, int(memory.min_ratio * cache.BATCH_REQUEST_MIB * MIB))
    assert cache.PROD_MIB * MIB + floors < LIMIT_MIB * MIB
    assert cache.BATCH_REQUEST_MIB > cache.BATCH_MIB, "the hard limit of a batch pod does not hold it"


def _document(path: str) -> dict[str, object]:
    [(name, spec)] = [(name, spec) for kind, name, spec in cache.documents() if kind == path]
    return {"apiVersion": "slackwater.io/v1alpha1", "kind": NODE_QOS.name, "metadata": {"name": name}, "spec": spec}


def test_a_watch_tells_when_limits_fell_and_what_prod_read_again() -> None:
    mib, low = MIB, (("100000000", "oom_kill_disable 1"), (str(300 << 20), "oom_kill_disable 0"))
    high = ((str(1 << 62), "oom_kill_disable 0"), (str(1 << 62), "oom_kill_disable 0"))
    watch = CacheWatch(10.0, 600, [(10.0, high), (11.5, low)], [(10.0, 0), (11.0, 50 * mib), (12.0, 150 * mib)])
    assert watch.first_lowered() == 1.5
    assert (watch.limit_mib(11.0), watch.limit_mib(12.0)) == (None, (100_000_000 + (300 << 20)) // mib)
    assert (watch.refault_mib(10.0, 12.0), watch.refault_mib(11.5, 12.0)) == (75.0, 0.0)
    assert CacheWatch(0.0, 600).first_lowered() is None
    assert (level_bytes(("max\n",), 7), level_bytes(("5\n", ""), 7), level_bytes(("9\n", ""), 7)) == (7, 5, 7)


def test_the_figures_of_a_turn_are_those_of_its_time_and_of_its_last_seconds() -> None:
    watch = CacheWatch(10.0, 600)
    watch.limits = [(10.0, (("max\n",), ("max\n",))), (14.0, ((str(100 * MIB),), ("max\n",)))]
    watch.refaults = [(at, int((at - 10) * 5) * MIB) for at in (10.0, 13.0, 14.0, 15.0)]
    reads = [
        BlockRead(10.5, 9.0),
        *(BlockRead(13.0 + number / 100, 0.002) for number in range(200)),
        BlockRead(20, 7.0),
    ]
    batch = [[Progress(13.5, 0), Progress(14.5, 30 * MIB)], [Progress(13.0, 0), Progress(14.0, 10 * MIB)]]
    found = measured_turn(SLACKWATER, watch, 15.0, reads, batch)
    assert (found.p99_ms, found.end_p99_ms) == (2.0, 2.0)
    assert (found.end_refault_mib, found.end_batch_mib) == (5.0, 40.0)
    assert (found.limit_mib, found.seconds_to_limit) == (700, 4.0)
    assert [one.limit_mib for one in found.moments] == [None] * 15 + [700] * 5
    assert [one.p99_ms for one in found.moments] == [None, None, 9000.0] + [None] * 9 + [2.0] * 8
    with pytest.raises(Unavailable, match="no read"):
        measured_turn("alone", watch, 15.0, [], [])


@pytest.mark.parametrize("pure_v2", [False, True])
def test_limits_and_refaults_are_read_as_the_kernel_shows_them(tmp_path: Path, *, pure_v2: bool) -> None:
    group = CacheGroup(tmp_path, pure_v2)
    page = os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "memory.stat").write_text("workingset_refault_file 3\ntotal_workingset_refault_file 5\n")
    assert group.refault_bytes() == (3 if pure_v2 else 5) * page
    (tmp_path / "memory.high").write_text("max\n")
    (tmp_path / "memory.limit_in_bytes").write_text("4096\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert group.limits() == (("max\n",) if pure_v2 else ("4096\n", "oom_kill_disable 0"))


def test_programs_of_a_plain_parent_have_memory_counted_on_v2(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.swap.max", "cgroup.subtree_control"):
        (tmp_path / "one").mkdir(exist_ok=True)
        (tmp_path / "one" / name).write_text("")
    unified = Hierarchy(unified=tmp_path, memory=tmp_path, pure_v2=True)
    with ParentGroup.limited(unified, "one", 1) as parent:
        assert (parent.directory / "cgroup.subtree_control").read_text() == "+memory"
        for file in parent.directory.iterdir():
            file.unlink()


class Folder:
    """The part of a stage that the scene's files need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workloads = self


def turns_in(folder: Path) -> cache.CacheTurns:
    return cache.CacheTurns(cast(Stage, Folder(folder)))


def test_files_are_removed_whatever_happens(tmp_path: Path) -> None:
    def fill_and_fail() -> None:
        with turns_in(tmp_path)._files() as files:
            assert sum(files.values()) < cache.FREE_DISK_MIB
            for path in files:
                write_file(path, 1)
            raise KeyError

    with pytest.raises(KeyError):
        fill_and_fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("memory", "disk", "why"), [(0, 10**6, "are available"), (10**6, 5, "5 MiB are free on the disk")]
)
async def test_a_machine_without_room_leaves_the_scene_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, disk: int, why: str
) -> None:
    monkeypatch.setattr(cache, "available_mib", lambda: memory)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=disk * MIB))
    found = await turns_in(tmp_path / "demo").perform(1)
    assert why in found.left_out
    assert found.turns == ()
    [said] = cache.CACHE.judged(found).not_measurable
    assert said.startswith("cache: ")


def run(module: str, is_enough: Callable[[], bool], *flags: str) -> None:
    """Run a program until it has noted enough, for a minute at most."""
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"PYTHONPATH": f"{root / 'services'}:{root / 'libs'}"}
    process = subprocess.Popen([sys.executable, "-m", f"slackwater.demo.scenes.{module}", *flags], env=environment)
    for _ in range(600):
        if is_enough():
            break
        time.sleep(0.1)
    process.kill()
    process.wait()


def test_the_programs_read_their_files_again_and_again_and_note_it(tmp_path: Path) -> None:
    file, out = tmp_path / "data", tmp_path / "out"
    write_file(file, 4)
    drop_cache(file)
    flags = ("--file", str(file), "--out", str(out))
    run("reread", lambda: len(reads_of(out)[1]) > 4, *flags, "--per-second", "100")
    whole, reads = reads_of(out)
    assert whole is not None
    assert len(reads) > 4
    assert all(one.seconds >= 0 for one in reads)
    assert [one.at for one in reads] == sorted(one.at for one in reads)
    out.unlink()
    run("stream", lambda: sum(one.bytes > 4 << 20 for one in progress_of(out)) > 1, *flags, "--mib-per-second", "40")
    progress = progress_of(out)
    assert progress[-1].bytes > 4 << 20
    assert [one.bytes for one in progress] == sorted(one.bytes for one in progress)


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert (reads_of(out), progress_of(out)) == ((None, []), [])
    out.write_text("1.0 5\n2.0 7\n3.0 ")
    assert [one.bytes for one in progress_of(out)] == [5, 7]
    assert len(reads_of(out)[1]) == 1


def test_a_result_goes_to_json_and_back() -> None:
    found = scene_of(turn("alone", 1.0), turn(PLAIN, 3.0), turn(SLACKWATER, 1.0, limit_mib=4, is_restored=True))
    assert CacheScene.model_validate(json.loads(found.model_dump_json())) == found


def test_a_limit_of_memory_is_told_in_bytes() -> None:
    action = {"tier": "batch", "pod_name": "b", "cpu_limit_before_milli": None, "cpu_limit_after_milli": None}
    limited = action | {"memory": {"before_bytes": None, "after_bytes": 400 * MIB, "released_bytes": 1}}
    assert actions_words([limited]) == ["batch/b memory unlimited -> 400Mi"]
    assert actions_words([action | {"memory": None}]) == ["batch/b unlimited -> unlimited"]
