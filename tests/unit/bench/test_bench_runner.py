"""What `make bench` ends with, as a process."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest
from tests.bench import machine, runner
from tests.bench.verdict import Scale, Target

BEFORE = machine.MachineReading(5.0e6, 1000, 10)


@pytest.mark.parametrize(
    ("seen", "stolen", "status", "said"),
    [
        (1.0, 0, 0, "exit 0: every target was met"),
        (2.1, 0, 1, "exit 1: a target was missed"),
        (1.0, 40, 3, "exit 3: not measurable"),
        (None, 0, 1, "exit 1: a target was missed, or a measurement failed"),
    ],
)
def test_the_exit_status_is_also_the_last_line_and_in_the_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    seen: float | None,
    stolen: int,
    status: int,
    said: str,
) -> None:
    def measure(folder: Path, given: argparse.Namespace, speed: float) -> dict[str, object]:
        assert folder.is_dir()
        assert speed == 1.0
        if seen is None:
            raise RuntimeError("no server")
        return {"targets": (Target("p99", seen, 2.0, "s", Scale.TIME),)}

    looks = iter([BEFORE, machine.MachineReading(5.0e6, 2000, 10 + stolen)])
    monkeypatch.setattr(machine, "read_machine", lambda: next(looks))
    monkeypatch.setattr(runner, "FIGURES", {"one": ("a figure", measure), "other": ("not asked for", measure)})
    out = tmp_path / "bench.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "one", "--out", str(out)])
    assert runner.main() == status
    assert capsys.readouterr().out.splitlines()[-1].startswith(said)
    assert json.loads(out.read_text())["exit"] == status
    assert (tmp_path / "bench.md").read_text().startswith("| figure |")


def test_an_interrupted_bench_prints_its_figures_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measure(*_: object) -> dict[str, object]:
        return {"targets": (Target("p99", 1.0, 2.0),)}

    def interrupted(*_: object) -> dict[str, object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(machine, "read_machine", lambda: BEFORE)
    monkeypatch.setattr(runner, "FIGURES", {"one": ("", measure), "two": ("", interrupted)})
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "one,two", "--out", str(tmp_path / "bench.json")])
    assert runner.main() == runner.EXIT_INTERRUPTED
    assert "met             one" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
