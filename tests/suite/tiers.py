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
    "tests/contract/test_api_conforms.py": "every route with drawn values",
    "tests/contract/test_hostile_requests.py": "every route with hostile values",
    "tests/contract/test_hostile_rpcs.py": "every RPC with hostile values",
    "tests/contract/test_slow_requests.py": "every route with requests that time out",
    "tests/faults": "kills and starves whole stacks",
    "tests/integration/access": "certificates, accounts and rehearsed pages",
    "tests/integration/agent/test_agent_crashes.py": "kills agents",
    "tests/integration/agent/test_agent_lost_pieces.py": "agents that lose their machine",
    "tests/integration/bus/test_bus_faults.py": "kills and starves brokers",
    "tests/integration/bus/test_cluster_of_brokers.py": "kills, stops and cuts off brokers of a cluster",
    "tests/integration/bus/test_hostile_bytes.py": "hostile bytes to every consumer",
    "tests/integration/bus/test_jetstream_faults.py": "kills brokers",
    "tests/integration/cli/test_assessed_documents.py": "a whole stack",
    "tests/integration/cli/test_backup_and_restore.py": "backup and restore",
    "tests/integration/cli/test_figures_in_docs.py": "recorded traces",
    "tests/integration/cli/test_fresh_demo.py": "a demo that is killed and begins again",
    "tests/integration/cli/test_host_apps_on_a_stack.py": "a whole stack",
    "tests/integration/cli/test_simulate_on_a_stack.py": "a whole stack",
    "tests/integration/cli/test_simulate_policies_on_a_stack.py": "a whole stack",
    "tests/integration/cli/test_strategies_on_a_stack.py": "a whole stack",
    "tests/integration/console/test_grpc_example.py": "an example beside a whole stack",
    "tests/integration/deploy": "compose file and manifests as processes",
    "tests/integration/ingestion/test_ingestion_kill.py": "kills a service",
    "tests/integration/quarantine": "unreadable rows in every service",
    "tests/integration/sharding": "replicas that hand over",
    "tests/integration/store/test_silent_server.py": "a server that is silent for seconds",
    "tests/integration/store/test_store_faults.py": "kills and starves servers",
    "tests/integration/test_runners_leave_nothing.py": "whole runs that are killed",
    "tests/integration/upgrade": "the version before",
    "tests/integration/store/test_failover.py": "fails over a real primary to its standby",
    "tests/kubernetes": "an API server",
    "tests/scenario/test_backup_rehearsal.py": "backup, disaster, restore",
    "tests/scenario/test_cut_surge_heal.py": "a partition in real time",
    "tests/scenario/test_loop_closes_on_a_simulated_fleet.py": "the demo in real time",
    "tests/unit/cli/test_backtest_verb.py": "recorded traces",
    "tests/unit/colocation/test_histories_of_offers.py": "drawn histories",
    "tests/unit/ensurance/test_histories.py": "drawn histories",
    "tests/unit/faults": "poison for every service",
    "tests/unit/sharding/test_two_of_each.py": "two of every service",
    "tests/unit/simulation/test_assess_verb.py": "recorded traces",
    "tests/unit/waterline/test_reversals.py": "hours of closed loop",
    "tests/unit/waterline/test_surges_at_random.py": "hours of closed loop",
    "tests/unit/world/test_agent_histories.py": "seeded histories",
    "tests/unit/world/test_hundred_seeds.py": "a hundred seeds",
    "tests/unit/world/test_pace.py": "seeds",
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
