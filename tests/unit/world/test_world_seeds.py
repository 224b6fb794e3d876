"""Histories of the whole control plane from seeds: the same hash twice, and the recorded regressions."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.world.plan import Plan
from tests.world.regressions import REGRESSIONS
from tests.world.swarm import draw

SMALL = ("--nodes", "3", "--seconds", "120")


def line_of(seed: int, *, junk: int = 0) -> str:
    """The line that a run in a process of its own prints; `junk` objects lie in its memory before it."""
    program = (
        f"import sys; junk = [object() for _ in range({junk})]; from tests.world.__main__ import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "--seed", str(seed), *SMALL]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[0]


def test_two_processes_find_one_hash_for_a_seed() -> None:
    first, second = line_of(11), line_of(11, junk=12_345)
    assert first == second
    assert line_of(12) != first


def test_regressions_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.world", "--regressions"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds") == len(REGRESSIONS)


def test_a_plan_survives_its_file() -> None:
    plan = draw(8)
    assert Plan.from_json(plan.to_json()) == plan
    assert draw(8) == plan
    assert draw(9) != plan


def test_a_plan_with_a_number_that_equals_nothing_survives_its_file() -> None:
    text = draw(7).to_json()
    assert "NaN" in text
    assert Plan.from_json(text).to_json() == text
