"""CPU of other processes: what neither the demo with its descendants nor the kernel's threads used."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.machine import other_work as module
from slackwater.demo.machine.other_work import MachineReading, ProcessUse, other_work, read_machine

uses = st.floats(0, 100)


def reading(at: float, ours: float, child: float, kernel: float, foreign: float) -> MachineReading:
    processes = {
        1: ProcessUse("init", 0, 0.0, 0.0),
        2: ProcessUse("kthreadd", 0, 0.0, 0.0),
        3: ProcessUse("kswapd0", 2, kernel, 0.0),
        10: ProcessUse("slackwater", 1, ours, 0.0),
        11: ProcessUse("postgres", 10, child, 0.0),
        20: ProcessUse("cc", 1, foreign, 0.0),
    }
    return MachineReading(at, ours + child + kernel + foreign, 0.5 * at, processes)


@given(uses, uses, uses, uses, st.floats(0.5, 20))
def test_only_what_others_used_counts(ours: float, child: float, kernel: float, foreign: float, span: float) -> None:
    found = other_work(reading(0, 1, 1, 1, 1), reading(span, 1 + ours, 1 + child, 1 + kernel, 1 + foreign), 10)
    assert abs(found.cpus - foreign / span) < 0.01
    assert abs(found.stolen_cpus - 0.5) < 0.01
    assert found.busiest == ("" if foreign < 0.05 * span else "cc (pid 20)")


def test_cpu_of_a_child_that_ended_stays_with_the_parent_that_waited_for_it() -> None:
    before = reading(0, 1, 5, 0, 0)
    ended = {pid: use for pid, use in reading(4, 1, 0, 0, 0).processes.items() if pid != 11}
    after = MachineReading(4, before.busy + 2, 0, {**ended, 10: ProcessUse("slackwater", 1, 1, 7.0)})
    assert other_work(before, after, 10).cpus == 0


def test_this_machine_is_read_with_every_process_and_their_parents() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = read_machine()
        assert found.busy > 0
        assert child.pid in found.tree(found.processes[child.pid].parent)
    finally:
        child.communicate(b"\n")


def test_a_name_with_spaces_and_brackets_is_read(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 0 50 9 9 9 9 7 0 0\n")
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "stat").write_text("77 (a (b) c) S 5 " + " ".join(["0"] * 9) + " 300 100 20 10 0 0\n")
    found = read_machine(tmp_path)
    assert found.processes[77].name == "a (b) c"
    assert found.processes[77].parent == 5
    assert found.processes[77].whole == 4.3


def test_a_process_that_ends_during_a_reading_keeps_its_cpu_in_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent was read before it took over the time."""

    def write(pid: int, parent: int, own: int, children: int) -> None:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        times = f"{own} 0 {children} 0 0 0"
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (x) S {parent} " + " ".join(["0"] * 9) + f" {times}\n")

    def ends_when_read(folder: Path, tick: int) -> ProcessUse | None:
        if folder.name == "71":
            shutil.rmtree(folder)
            write(70, 1, 100, 300)
        return as_it_is(folder, tick)

    as_it_is = module._process
    (tmp_path / "stat").write_text("cpu  400 0 0 9 9 9 9 7 0 0\n")
    write(70, 1, 100, 0)
    write(71, 70, 300, 0)
    monkeypatch.setattr(module, "_process", ends_when_read)
    found = read_machine(tmp_path)
    assert found.seconds(found.tree(70)) == found.busy
