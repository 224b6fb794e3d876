"""A hundred small seeds of the world hold every invariant. Lanes share the parts (tests/conftest.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from tests.world.campaign import command
from tests.world.pace import SMALL_NODES, SMALL_SECONDS

ROOT = Path(__file__).resolve().parents[3]
SEEDS, SEEDS_OF_A_PART = 100, 50
"""Of the virtual time, 29 s have faults, and at least 100 s settle. The aim is 60 s for all on two cores at 5.0 M
calibration; `make bench ARGS="--only world"` measures it. A part imports and warms up once: 4 s of CPU."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_OF_A_PART))
def test_small_seeds_hold(first: int) -> None:
    """A failure shows each seed, what it violates and the command that replays it."""
    size = ("--nodes", str(SMALL_NODES), "--seconds", f"{SMALL_SECONDS:g}", "--workers", "1")
    program = [sys.executable, "-m", "tests.world", "--first", str(first), "--seeds", str(SEEDS_OF_A_PART), *size]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SEEDS_OF_A_PART}/{SEEDS_OF_A_PART} seeds, 0 failed" in done.stdout


def test_the_command_of_a_failed_seed_gives_its_size() -> None:
    options = Namespace(nodes=SMALL_NODES, seconds=SMALL_SECONDS, quotas=False, moves=False)
    assert command(9, options) == 'make world ARGS="--seed 9 --nodes 2 --seconds 45"'
