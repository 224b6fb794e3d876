"""Which test files `make test` runs, and which only `make test-all` runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


class Tier(StrEnum):
    """A part of the tests. Together the tiers hold every test file once."""

    QUICK = "quick"
    SLOW = "slow"


SLOW: Final[Mapping[str, str]] = {
    "tests/browser": "a browser",
    "tests/faults": "kills and starves whole stacks",
    "tests/kubernetes": "an API server",
    "tests/integration/cli/test_backup_and_restore.py": "backup and restore",
    "tests/integration/deploy/test_compose_rehearsal.py": "the compose file as processes",
    "tests/integration/deploy/test_kubernetes_rehearsal.py": "the manifests as processes",
    "tests/integration/test_runners_leave_nothing.py": "whole runs that are killed",
    "tests/integration/upgrade": "the version before",
    "tests/scenario/test_backup_rehearsal.py": "backup, disaster, restore",
    "tests/scenario/test_cut_surge_heal.py": "a partition in real time",
    "tests/scenario/test_loop_closes_on_a_simulated_fleet.py": "the demo in real time",
    "tests/unit/world/test_agent_histories.py": "seeded histories",
    "tests/unit/world/test_hundred_seeds.py": "a hundred seeds",
    "tests/unit/world/test_planted_violation.py": "seeds and their shrinking",
    "tests/unit/world/test_world_mutants.py": "seeds of wrong versions",
    "tests/unit/world/test_world_seeds.py": "seeds",
}
"""Files and folders of the slow tier, with what makes them slow."""


def tier_of(file: str) -> Tier:
    """Returns the tier of a test file, which is a path from the root."""
    path = Path(file)
    names = {path.as_posix(), *(folder.as_posix() for folder in path.parents)}
    return Tier.SLOW if names & SLOW.keys() else Tier.QUICK


def files_of(tier: Tier) -> list[str]:
    """Returns the test files of a tier, sorted, as paths from the root."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py"))
    return [file for file in files if tier_of(file) is tier]
