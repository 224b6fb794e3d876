"""The scene quotas: its sentences are sums of its rows, its failures broken promises, and its job keeps its steps."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.demo.scenes.quotas import ASKED_JOBS, JOBS, QUOTAS, TERMINATED
from slackwater.demo.scenes.quotas_picture import picture
from slackwater.demo.scenes.quotas_result import (
    ASKED,
    ELASTIC,
    FIXED,
    TITLES,
    VARIANTS,
    QuotasScene,
    QuotaStage,
    TeamLevel,
    failures,
    report,
    sentences,
)

counts = st.integers(0, 4)
stages = st.builds(
    QuotaStage,
    variant=st.sampled_from(VARIANTS),
    lender_running=counts,
    borrower_running=counts,
    borrower_waiting=counts,
    lent_milli=st.sampled_from([0, 500, 1000]),
    borrowed_milli=st.sampled_from([0, 500, 1000]),
    owed_milli=st.sampled_from([0, 500, 1000]),
    reclaimed=counts,
    endings=st.lists(st.sampled_from(["running", "checkpoint", "killed"]), max_size=4).map(tuple),
    waited_seconds=st.one_of(st.none(), st.floats(0, 30)),
)
levels = st.builds(
    TeamLevel, stage=st.sampled_from(VARIANTS), seconds=st.floats(0, 20), lender_milli=st.integers(0, 2000),
    borrower_milli=st.integers(0, 2000),
)  # fmt: skip
scenes = st.builds(
    QuotasScene, total_milli=st.just(2000), job_milli=st.just(500), jobs=st.just(JOBS), asked=st.just(ASKED_JOBS),
    turns=st.lists(stages, max_size=6).map(tuple), levels=st.lists(levels, max_size=5).map(tuple),
)  # fmt: skip


def stage(variant: str, **figures: object) -> QuotaStage:
    return QuotaStage.model_validate({"variant": variant, **figures})


SHOWN = QuotasScene(
    total_milli=2000,
    job_milli=500,
    jobs=4,
    asked=2,
    turns=(
        stage(FIXED, borrower_running=2, borrower_waiting=2, endings=["running"] * 4),
        stage(ELASTIC, borrower_running=4, lent_milli=1000, borrowed_milli=1000, endings=["running"] * 4),
        stage(
            ASKED, borrower_running=2, lender_running=2, owed_milli=1000, reclaimed=2, waited_seconds=1.8,
            endings=["running", "running", "checkpoint", "checkpoint"],
        ),
    ),
)  # fmt: skip


def test_what_was_promised_and_shown_is_no_failure() -> None:
    assert failures(SHOWN) == []
    assert sentences(SHOWN) == [
        "quotas, fixed shares: team-b runs 2 of 4 jobs, 2 wait, team-a runs none",
        "quotas, elastic, team-a idle: team-b runs 4 of 4 jobs and borrows 1 CPU; team-a lends 1 CPU",
        (
            "quotas, elastic, team-a asks: team-a runs 2 of 2 jobs after 1.8 s; 2 jobs of team-b reclaimed for it, "
            "2 ended with a checkpoint and exit status 143, 0 killed"
        ),
    ]


@given(scenes)
@settings(max_examples=50)
def test_every_number_of_a_sentence_is_a_sum_of_its_rows(scene: QuotasScene) -> None:
    said = {text.split(": ")[0]: text for text in sentences(scene)}
    assert said.keys() == {f"quotas, {TITLES[turn.variant]}" for turn in scene.turns}
    for variant in VARIANTS:
        rows, text = scene.of(variant), said.get(f"quotas, {TITLES[variant]}", "")
        if not rows:
            continue
        numbers = [int(one) for one in re.findall(r"(?<![\d.])\d+(?= (?:of|job|wait|ended|killed))", text)]
        running = sum(row.lender_running if variant == ASKED else row.borrower_running for row in rows)
        assert numbers[0] == running
        if variant == ASKED:
            assert f"{sum(row.reclaimed for row in rows)} job" in text
            assert f"{sum(row.ended('checkpoint') for row in rows)} ended with a checkpoint" in text
            assert f"{sum(row.ended('killed') for row in rows)} killed" in text


@given(scenes)
@settings(max_examples=50)
def test_it_fails_exactly_where_a_row_breaks_a_promise(scene: QuotasScene) -> None:
    def is_kept(row: QuotaStage) -> bool:
        kept = row.lent_milli == row.borrowed_milli and not row.ended("killed")
        if row.variant == FIXED:
            return kept and row.borrower_running <= 2 and row.borrower_waiting > 0
        if row.variant == ELASTIC:
            return kept and row.borrower_running == JOBS and row.borrowed_milli > 0
        taken_back = row.reclaimed == ASKED_JOBS and row.ended("checkpoint") >= row.reclaimed
        return kept and row.lender_running >= ASKED_JOBS and taken_back

    assert (failures(scene) == []) is all(is_kept(row) for row in scene.turns)


@given(scenes)
@settings(max_examples=30)
def test_the_table_has_a_row_per_stage_and_the_picture_stands_alone(scene: QuotasScene) -> None:
    found = report(scene)
    assert len(found.rows) == len(scene.turns)
    assert all(len(row) == len(found.columns) for row in found.rows)
    drawn = picture(scene)
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - made by us a line above
    assert "nan" not in drawn


def test_other_work_on_the_machine_changes_no_verdict() -> None:
    assert QUOTAS.judged(SHOWN).not_measurable == ()
    absent = QUOTAS.judged(QuotasScene(left_out="the pool has no CPU"))
    assert absent.not_measurable == ("quotas: the pool has no CPU",)


def test_a_job_that_has_to_end_keeps_its_steps_and_ends_by_the_signal(tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out.json", tmp_path / "checkpoint.json"
    command = [sys.executable, "-m", "slackwater.demo.programs.claimed_job", "--out", str(out)]
    with subprocess.Popen([*command, "--checkpoint", str(checkpoint)]) as job:
        while not out.exists():
            assert job.poll() is None
            time.sleep(0.02)
        job.terminate()
        assert job.wait(20) == -signal.SIGTERM
    assert 128 + signal.SIGTERM == TERMINATED
    assert json.loads(checkpoint.read_text())["steps"] >= 1
