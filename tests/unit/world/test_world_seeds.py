"""Histories of the whole control plane from seeds: the same hash twice, and the recorded regressions."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest
from tests.world.plan import Plan
from tests.world.regressions import REGRESSIONS
from tests.world.run import Outcome
from tests.world.swarm import draw
from tests.world.twice import differs

SMALL = ("--nodes", "2", "--seconds", "45")


def test_a_second_run_with_other_hashes_and_addresses_has_the_same_hash() -> None:
    command = [sys.executable, "-m", "tests.world", "--seed", "11", "--twice", *SMALL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == f"the same history again: {lines[0].split()[2]}"


def test_a_second_run_with_another_hash_is_found() -> None:
    outcome = Outcome(12, "0123456789abcdef", 0, 0.0, 0, {}, {})
    options = argparse.Namespace(nodes=1, seconds=40.0, quotas=True, moves=False)
    found = differs(outcome, options)
    assert found.startswith("the same history again: the hash is "), found
    assert found.endswith(", it was 0123456789abcdef")
    assert "missing" not in found


@pytest.mark.timeout(30 * len(REGRESSIONS))  # each took 3 s on a quiet machine, and over 6 s on a busy one
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
