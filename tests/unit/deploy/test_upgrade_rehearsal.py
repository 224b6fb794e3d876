"""The rehearsal of a rolling change (deploy/upgrade): its arguments, and that its judge notices every fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deploy.upgrade.documents import OF_OTHER_SERVICES, SAMPLES, content
from deploy.upgrade.rehearse import REPOSITORY, Outcomes, Version, parse
from tests.faults.oracle import Findings

from slackwater.resources import catalog, kinds

PASSED = Outcomes(findings=Findings(offered=9, acked=9), decisions={"prediction": 3}, exits={"console-old": 0})
FAULTS = {
    "a lost report": {"findings": Findings(lost=1)},
    "a window twice": {"findings": Findings(duplicates=1)},
    "an uncounted gap": {"findings": Findings(gaps_unaccounted=1)},
    "a dead letter": {"dead_letters": {"console-resource-changed/invalid": 1}},
    "a quarantined row": {"quarantined": {"console": 1}},
    "a process that ended": {"exits": {"console-old": 1}},
    "no predictions": {"decisions": {"colocation": 3}},
    "a document that differs": {"faults": ["ensurance-old podqos/gold: generation 2 instead of 3"]},
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    return tmp_path


def test_a_clean_outcome_passes() -> None:
    assert not PASSED.complaints()


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_a_complaint(fault: str) -> None:
    (complaint,) = replace(PASSED, **FAULTS[fault]).complaints()  # type: ignore[arg-type]
    assert complaint


def test_the_new_version_is_this_checkout_unless_named(checkout: Path) -> None:
    options = parse([str(checkout), "--new", str(checkout), "--signal", "KILL"])
    assert (options.old, options.new, options.signal, options.nodes) == (checkout, checkout, "KILL", 20)
    assert Path(__file__).parents[3] == REPOSITORY


@pytest.mark.parametrize("arguments", [[], ["--signal", "HUP"], ["--new", "/nowhere"]])
def test_unusable_arguments_are_refused(checkout: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse([str(checkout), *arguments] if arguments else [])
    assert refused.value.code == 2


def test_a_command_runs_the_code_and_the_environment_of_its_checkout(checkout: Path) -> None:
    command = Version("old", checkout).command("run", "console")
    assert f"PYTHONPATH={checkout}/services:{checkout}/libs" in command
    assert f"{checkout}/.venv/bin/python" in command
    assert command[-2:] == ["run", "console"]


def test_every_kind_is_changed_and_each_turn_changes_it() -> None:
    assert {sample.kind for sample in SAMPLES} | OF_OTHER_SERVICES == {
        kind.name for kind in catalog.declared_kinds(kinds.__path__)
    }
    for sample in SAMPLES:
        if sample.path != "nodeqos/default":  # which always exists
            turns = [sample.skeleton(), sample.skeleton()]
            for turn, document in enumerate(turns):
                sample.edit(document["spec"], turn)
            assert content(turns[0]) != content(turns[1])
