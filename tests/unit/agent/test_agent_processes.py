"""The processes that a signal reaches, and those that it never reaches."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from slackwater.agent.adapters.linux import processes
from slackwater.agent.adapters.linux.processes import members, send


def cgroup(path: Path, *pids: int) -> Path:
    path.mkdir()
    (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    return path


def test_a_process_of_another_pid_namespace_is_there_and_its_number_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel lists it as 0, and a signal to 0 goes to our own process group."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    place = cgroup(tmp_path / "pod", 0, 4242, 0)
    assert members(place), "it has processes"
    send([place], signal.SIGTERM)
    send([place], signal.SIGKILL)
    assert sent == [(4242, signal.SIGTERM), (4242, signal.SIGKILL)]


def test_a_process_that_may_not_be_signalled_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    def kill(pid: int, number: int) -> None:
        if pid == 1:
            raise PermissionError
        if pid == 2:
            raise ProcessLookupError
        sent.append(pid)

    monkeypatch.setattr(processes.os, "kill", kill)
    send([cgroup(tmp_path / "pod", 1, 2, 3)], signal.SIGTERM)
    assert sent == [3]
