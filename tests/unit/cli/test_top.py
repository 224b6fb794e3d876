"""`top`: its rows, what fits a terminal, and its end by a key; in a real pseudo-terminal too."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import termios
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import END, Served
from test_read_verbs import Run, failure, well

from slackwater.cli.output import TableColumn
from slackwater.cli.top_rows import COLUMNS, fitting, screen, summary

ROWS = st.lists(st.text("ab", max_size=12).map(lambda text: {"text": text}), max_size=30)
LETTERS = [TableColumn(title, lambda item: item["text"]) for title in ("FIRST", "SECOND", "THIRD")]


@pytest.mark.parametrize("kind", ["nodes", "workloads", "pods"])
def test_piped_it_prints_one_table_with_the_busiest_first(run: Run, kind: str) -> None:
    lines = well(run("top", kind)).splitlines()
    assert lines[0].split() == [column.title for column in COLUMNS[kind]]
    assert len(lines) > 2
    assert not any("\x1b" in line for line in lines)
    names = [line.split()[0] for line in lines[1:]]
    assert well(run("top", kind, "--once", "--sort-by", "cpu", "--no-headers")).splitlines() != lines[1:]
    assert sorted(names) == sorted(
        line.split()[0] for line in well(run("top", kind, "--sort-by", "cpu")).splitlines()[1:]
    )


def test_it_takes_filters_and_refuses_others(run: Run) -> None:
    assert {line.split()[0] for line in well(run("top", "po", "--node", "edge-7")).splitlines()[1:]} == {"edge-7"}
    assert "no nodes match" in run("top", "--pool", "nowhere").stderr
    assert "allowed: nodes, workloads, pods" in failure(run("top", "shards"), 2)
    assert "slackwater get node edge-7" in failure(run("top", "--node", "edge-7"), 2)
    assert "workloads have no labels" in failure(run("top", "workloads", "-l", "a=b"), 2)
    assert "'colour' is not a column" in failure(run("top", "--sort-by", "colour"), 2)


@given(ROWS, st.integers(5, 60), st.integers(6, 20))
def test_a_screen_fits_the_terminal(rows: list[dict[str, Any]], width: int, height: int) -> None:
    lines = screen("now  nodes 1 of 2", rows, LETTERS, width, height)
    assert len(lines) <= height
    shown = fitting(rows, LETTERS, width)
    assert shown == LETTERS[: len(shown)]
    assert shown
    if len(shown) > 1:
        assert max(map(len, lines)) <= max(width, len("… 99 more rows"))
    left_out = [int(found[1]) for line in lines if (found := re.fullmatch(r"… (\d+) more rows", line))]
    table = lines[lines.index("") + 1 :]
    assert len(table) - len(left_out) - 1 + sum(left_out) == len(rows)


def test_the_summary_counts_only_nodes_that_report() -> None:
    tiers = {"prod": {"cpu_milli": 9000, "memory_bytes": 0}, "batch": {"cpu_milli": 1800, "memory_bytes": 0}}
    usage = {"usage": {"cpu_milli": 2000, "memory_bytes": 2**30}, "tiers": tiers, "throttled_pods": 1}
    node = {
        "liveness": "fresh",
        "usage": usage,
        "facts": {"capacity": {"cpu_milli": 8000, "memory_bytes": 4 * 2**30}},
        "offer": {"batch": {"cpu_milli": 1500, "memory_bytes": 2**29}},
    }
    lost = {**node, "liveness": "lost"}
    text = summary([node, lost, {"liveness": None}], END)
    assert "nodes 1 of 3 report  CPU 2 of 8 (25%)  memory 1Gi of 4Gi (25%)  offered 1.5 and 512Mi" in text
    assert "borrowed 1.5 (0.3 beyond offers)" in text
    assert text.endswith("throttled pods 1")
    withdrawn = {**node, "offer": {"batch": {"cpu_milli": 0, "memory_bytes": 0}, "degraded": "usage is old"}}
    told = "no CPU is offered: 1 node silent, 1 node degraded, because usage is old or missing"
    assert summary([withdrawn, {"liveness": None}], END).endswith(told)
    assert "CPU 0 of 0  memory" in summary([], END)


def _in_terminal(url: str, keys: bytes, *arguments: str) -> tuple[int, str]:
    """The status and output of the command in a pseudo-terminal; the keys are sent after its first screen."""
    process, terminal = pty.fork()
    if process == 0:
        own = {"SLACKWATER_SERVER": url, "TERM": "xterm", "COLUMNS": "300", "PYTHONPATH": ":".join(sys.path)}
        environment = {**os.environ, **own}
        os.execve(sys.executable, [sys.executable, "-m", "slackwater.cli", *arguments], environment)  # noqa: S606 - no shell is wanted
    termios.tcsetwinsize(terminal, (12, 80))
    output, sent = b"", False
    while select.select([terminal], [], [], 60)[0]:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # the process closed its side
            break
        output += read
        if not sent and b"edge-" in output:
            os.write(terminal, keys)
            sent = True
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), output.decode()


@pytest.mark.parametrize("keys", [b"q", b"\x03"])
def test_in_a_terminal_it_draws_until_a_key_and_restores_the_screen(console: Served, keys: bytes) -> None:
    status, output = _in_terminal(console.url, keys, "top", "nodes", "--interval", "3600")
    assert status == 0
    assert output.startswith("\x1b[?1049h\x1b[?25l")
    assert output.rstrip().endswith("\x1b[?25h\x1b[?1049l")
    drawn = output.split("\x1b[H")[1]
    rows = [line.removesuffix("\x1b[K") for line in drawn.split("\x1b[J")[0].split("\r\n")]
    assert max(map(len, rows)) <= 80
    assert len(rows) <= 12
    assert any("report" in row for row in rows)
