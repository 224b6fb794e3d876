"""Wrong versions of the product: each still fits its place, and the cheapest are found by their seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from tests.world.invariants import all_invariants
from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import DoesNotFit, Edit
from tests.world.mutants.registry import MUTANTS
from tests.world.run import Child
from tests.world.world import ENDS_AS_DECLARED

from slackwater.offers import degradation

CHEAPEST = ("ack before commit", "clock taken from the report", "grant not asked")
SMALL = ("--nodes", "1", "--seconds", "40", "--tries", "1")
"""Their histories without the mutant: the time of the test."""


def test_every_mutant_fits_its_place() -> None:
    for mutant in MUTANTS:
        for edit in mutant.edits:
            import_module(f"slackwater.{edit.place.partition(':')[0]}")  # once, before the forks
    assert {mutant.name: why for mutant in MUTANTS if (why := Child(partial(planting, mutant)).result())} == {}


def planting(mutant: Mutant) -> str:
    """Returns why a mutant does not fit; empty if it does. Changes this process."""
    try:
        mutant.plant()
    except DoesNotFit as error:
        return str(error)
    return ""


def test_mutants_are_named_once_and_expect_invariants_that_exist() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    known = {ENDS_AS_DECLARED, *(invariant.NAME for invariant in all_invariants())}
    assert {name for mutant in MUTANTS for name in mutant.expected} <= known


@pytest.mark.parametrize(
    ("place", "old"),
    [
        ("store.inbox:first_time", "no such text"),
        ("store.inbox:first_time", "consumer"),
        ("store.inbox:no_such_function", "True"),
        ("store.driver_errors:_AWAY", ("08",)),
    ],
)
def test_an_edit_of_a_place_that_has_changed_is_refused(place: str, old: object) -> None:
    with pytest.raises(DoesNotFit):
        Edit(place, old, "True").plant()


def test_an_edited_function_changes_wherever_it_is_held() -> None:
    def amount() -> int:
        held = degradation.offer_in_quarantine
        Edit("offers.degradation:offer_in_quarantine", "return 0", "return 7").plant()
        return held("any")

    assert Child(amount).result() == 7
    assert degradation.offer_in_quarantine("any") == 0


def test_the_cheapest_mutants_are_found_by_their_seeds_which_hold_without_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.world", *SMALL, "--json", str(tmp_path / "found"), "--mutants"]
    done = subprocess.run(
        [*command, *CHEAPEST],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    findings = [json.loads(line) for line in (tmp_path / "found").read_text().splitlines()]
    expected = {mutant.name: mutant.expected for mutant in MUTANTS}
    assert {finding["mutant"] for finding in findings} == set(CHEAPEST)
    for finding in findings:
        assert finding["invariant"].removesuffix(" (at rest)") in expected[finding["mutant"]]
