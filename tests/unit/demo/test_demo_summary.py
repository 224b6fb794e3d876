"""The end of a run: its exit status, its table on wide and narrow terminals, and what is printed how often."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from slackwater.demo import table
from slackwater.demo.director import finish, outcome, summary_path
from slackwater.demo.summary import Comparison, RunSummary, SceneSummary, TurnSummary, exit_status, failures
from slackwater.demo.verdict import Word

SHOWN = SceneSummary(
    plan="batch is lent CPU",
    turns=(TurnSummary(variant="offers"),),
    comparisons=(
        Comparison(figure="batch pods placed (of 8)", without="0", with_slackwater="4", word=Word.BETTER),
        Comparison(
            figure="prod's p99, ms",
            without="18.3 (16.1 to 20.8)",
            with_slackwater="19.1 (18.9 to 19.4)",
            word=Word.TOO_FEW,
            why="other processes used 1.5 of 2 CPU",
        ),
    ),
)
LEFT_OUT = SceneSummary(plan="a surge", left_out="it needs 40 s, and 3 s are left")
FAILED = SHOWN.model_copy(update={"failures": ("lend: not kept: no batch pod is placed without an offer",)})


def summary(scenes: dict[str, SceneSummary] | None = None, **changes: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "driver": "linux",
        "machine": {"node": "edge-7"},
        "started_at": datetime(2026, 1, 5, tzinfo=UTC),
        "seconds": 90,
        "scenes": {"lend": SHOWN} if scenes is None else scenes,
        "commands": ("slackwater why node/edge-7 batch-cpu", "slackwater get decisions", "slackwater top"),
        "console_url": "http://127.0.0.1:8460",
        "is_over": True,
        "finished": True,
        "restored_exactly": True,
        "restored_files": 12,
    }
    complete = RunSummary(**(fields | changes))
    return complete.model_copy(update={"failures": failures(complete)})


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (summary(), 0),
        (summary({"lend": SHOWN, "cpu": LEFT_OUT}), 0),
        (summary({"lend": FAILED, "cpu": LEFT_OUT}), 2),
        (summary({"cpu": LEFT_OUT.model_copy(update={"failures": ("cpu: left behind",)})}), 2),
        (summary({"cpu": LEFT_OUT}), 3),
        (summary({}), 3),
        (summary(leftovers=("cgroup /sys/fs/cgroup/x",)), 2),
        (summary(restored_exactly=False), 2),
        (summary(restored_exactly=None), 2),
        (summary(is_over=False), None),
        (summary({}, is_over=False), None),
        (summary({"lend": FAILED}, is_over=False), 2),
    ],
)
def test_a_run_fails_by_a_broken_promise_alone(found: RunSummary, status: int | None) -> None:
    assert exit_status(found) == status
    assert any(f"exit {status}" in line or "interrupted" in line for line in table.ending(found)[-1:])


@given(st.sampled_from([Word.SAME, Word.BETTER, Word.WORSE, Word.TOO_FEW]))
def test_no_word_on_a_figure_changes_the_exit_status(word: Word) -> None:
    told = tuple(compared.model_copy(update={"word": word}) for compared in SHOWN.comparisons)
    assert exit_status(summary({"lend": SHOWN.model_copy(update={"comparisons": told})})) == 0


@pytest.mark.parametrize("width", [60, 79, 80, 95, 200])
def test_a_table_fits_is_ascii_and_has_every_figure_with_its_word(width: int) -> None:
    found = summary({"lend": SHOWN, "cpu": LEFT_OUT})
    lines = table.lines(found, width)
    figures = [line for line in lines if not line.startswith(("too few", "cpu: left out"))]
    assert max(map(len, figures)) <= width
    text = "\n".join(lines)
    assert text.isascii()
    for compared in SHOWN.comparisons:
        assert all(part in text for part in (compared.figure, compared.without, compared.with_slackwater))
        assert compared.word is not None
        assert compared.word in text
    assert "too few to tell: other processes used 1.5 of 2 CPU; more turns: make run SCENE=lend" in lines
    assert lines[-1] == "cpu: left out, it needs 40 s, and 3 s are left"


def test_a_scene_with_nothing_to_compare_with_has_no_word() -> None:
    moved = SHOWN.model_copy(
        update={"comparisons": (Comparison(figure="downtime, s", without="", with_slackwater="0.4"),)}
    )
    assert table.lines(summary({"moves": moved}), 40) == ["moves: downtime, s", "  with Slackwater: 0.4"]


@pytest.mark.parametrize(("stays_up", "times"), [(False, 1), (True, 0)])
def test_the_end_prints_the_table_unless_it_was_printed_after_the_scenes(
    tmp_path: Path, stays_up: bool, times: int
) -> None:
    demo = tmp_path / "demo"
    (demo / "agent").mkdir(parents=True)
    (demo / "agent" / "restore-report.json").write_text(json.dumps({"exact": True, "files": ["a", "b"]}))
    unfinished = summary(finished=False, restored_exactly=None, driver="simulated", stays_up=stays_up)
    summary_path(demo).write_text(unfinished.model_dump_json())
    out = StringIO()
    assert finish(demo, Console(file=out, width=120)) == 0
    assert out.getvalue().count("batch pods placed") == times
    assert out.getvalue().endswith(
        "2 files restored exactly, nothing left behind; took 0 s\nexit 0: every promise was kept\n"
    )
    kept = RunSummary.model_validate_json(summary_path(demo).read_text())
    assert (kept.finished, kept.exit, kept.restored_files) == (True, 0, 2)


def test_without_a_summary_nothing_is_said(tmp_path: Path) -> None:
    assert finish(tmp_path / "demo", Console(file=StringIO())) == 0


def test_a_scene_is_summed_up_in_one_line() -> None:
    assert outcome(SHOWN) == "shown in 1 turn, every promise kept"
    assert outcome(FAILED).startswith("FAILED, lend: not kept")
    assert outcome(LEFT_OUT) == "left out, it needs 40 s, and 3 s are left"
