"""How the tests share a machine when several lanes run them (`make test`; see docs/decisions/0026)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from slackwater.testing.servers import VARIABLE, chosen

settings.register_profile("slackwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slackwater")
"""No test is timed: an example that took long says that the machine was busy, and nothing of what it is about."""

TESTS = Path(__file__).parent
LONGEST_FIRST = (
    "faults/test_chosen.py",
    "integration/sharding/test_two_replicas.py",
    "scenario/test_loop_closes_on_a_simulated_fleet.py",
    "integration/sharding/test_two_of_each.py",
    "integration/deploy/test_compose_rehearsal.py",
    "scenario/test_backup_rehearsal.py",
    "browser/test_console_in_a_browser.py",
    "integration/ingestion/test_ingestion_kill.py",
    "integration/bus/test_bus_faults.py",
    "integration/deploy/test_kubernetes_rehearsal.py",
    "scenario/test_one_trace_and_its_figures.py",
    "scenario/test_cut_surge_heal.py",
    "integration/ingestion/test_ingestion_service.py",
    "integration/cli/test_run.py",
    "integration/console/test_console_service.py",
    "integration/console/test_grpc_example.py",
    "integration/store/test_lease_standstill.py",
    "integration/access/test_agents_are_confined.py",
    "integration/access/test_the_page_on_security.py",
    "integration/access/test_who_backs_up.py",
    "contract/test_api_conforms.py",
    "integration/console/test_read_model.py",
)
"""Files of more than ten seconds. A lane takes a whole file: one that came last would keep the others waiting."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, all else in its order; every lane comes to the same order."""
    ranks = {TESTS / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one lane more than cores, as tests wait about as long as they compute.

    One process for servers that were given: there the streams are shared, and each test begins by deleting them.
    """
    if chosen(os.environ.get(VARIABLE, "")).kind == "given":
        return 0
    return len(os.sched_getaffinity(0)) + 1
