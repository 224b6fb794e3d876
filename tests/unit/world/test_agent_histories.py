"""Seeded histories of agents on machines that fail: limits, evictions and restores hold, and each history is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TREE = HERE.parents[2]


def histories(first: int, last: int) -> list[str]:
    """One line per seed: number, hash, failure. In a process of its own, because runs need a fixed hash seed."""
    paths = (TREE, TREE / "services", TREE / "libs", HERE)
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths)), "PYTHONHASHSEED": "0"}
    line = [sys.executable, str(HERE / "agent_histories.py"), str(first), str(last)]
    done = subprocess.run(line, cwd=TREE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("first", [1, 9])
def test_limits_evictions_and_restores_hold_in_every_history(first: int) -> None:
    found = histories(first, first + 8)
    assert len(found) == 8
    assert [line for line in found if not line.endswith(" holds")] == []
    if first == 1:
        assert histories(5, 6) == found[4:5], "a second run gives another history"
