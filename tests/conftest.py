"""How the tests share a machine when several lanes run them (`make test`; see docs/decisions/0026 and 0065)."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpcore2
import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from slackwater.testing.servers import VARIABLE, chosen

gc.disable()
"""Until everything is collected: see pytest_collection_finish."""

settings.register_profile("slackwater", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("slackwater"), max_examples=1000)
settings.load_profile("slackwater")
"""No test is timed: an example that took long says that the machine was busy, and nothing of what it is about. Examples
differ in every run, so that 50 in a run (Hypothesis has 100) find in two runs what 100 find in one, and hundreds of
properties take half the time. `make test ARGS=--hypothesis-profile=thorough` draws 1,000."""

typer.testing._get_command = cache(typer.main.get_command)
"""Each invocation of a command line built all verbs with their options again, for 30 ms."""

httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
"""Each HTTP client of a test loaded the machine's certificates, for 20 ms, though nearly all use plain HTTP."""

TESTS = Path(__file__).parent
LONGEST_FIRST = (
    "faults/test_chosen.py",
    "scenario/test_loop_closes_on_a_simulated_fleet.py",
    "integration/deploy/test_compose_rehearsal.py",
    "scenario/test_backup_rehearsal.py",
    "browser/test_console_in_a_browser.py",
    "integration/test_runners_leave_nothing.py",
    "integration/agent/test_driver_conformance.py",
    "integration/bus/test_bus_faults.py",
    "integration/bus/test_jetstream_consumers.py",
    "integration/deploy/test_kubernetes_rehearsal.py",
    "kubernetes/test_helm_on_api_server.py",
    "integration/cli/test_backup_and_restore.py",
    "scenario/test_one_trace_and_its_figures.py",
    "scenario/test_cut_surge_heal.py",
    "integration/sharding/test_two_replicas.py",
    "integration/ingestion/test_ingestion_kill.py",
    "integration/ingestion/test_ingestion_service.py",
    "integration/cli/test_run.py",
    "integration/console/test_console_service.py",
    "integration/console/test_grpc_example.py",
    "integration/store/test_lease_standstill.py",
    "integration/store/test_silent_server.py",
    "integration/access/test_agents_are_confined.py",
    "integration/access/test_the_page_on_security.py",
    "integration/access/test_backup_permissions.py",
    "contract/test_api_conforms.py",
    "integration/console/test_read_model.py",
    "integration/upgrade/test_upgrade_from_previous_version.py",
)
"""Files that take more than ten seconds, most of which they wait. A lane takes a whole file: one that came last would
keep the others waiting."""
SHARED = "tests/unit/world/test_hundred_seeds.py"
"""Its tests go to whichever lanes are free: each has a process of its own."""
TOGETHER = ("tests/architecture/", "tests/kubernetes/")
"""Folders whose tests one lane takes: they share the parsed tree (20 s for each lane), or a control plane."""
ALONE = "tests/kubernetes/test_helm_on_api_server.py"
"""A file of such a folder that has a control plane of its own."""
BUSIEST_LAST = (
    "conformance/test_total_adaptors.py",
    "unit/world/test_planted_violation.py",
    "unit/world/test_world_seeds.py",
    "unit/world/test_agent_histories.py",
    "unit/world/test_world_mutants.py",
    "unit/world/test_hundred_seeds.py",
    "contract/test_hostile_requests.py",
)
"""Those that compute for more than ten seconds: they come first in the lane that begins at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, the busy ones last, all else in its order; every lane comes to the same order."""
    ranks = {TESTS / name: rank - len(LONGEST_FIRST) for rank, name in enumerate(LONGEST_FIRST)}
    ranks |= {TESTS / name: rank for rank, name in enumerate(BUSIEST_LAST, start=1)}
    items.sort(key=lambda item: ranks.get(item.path, 0))


def pytest_collection_finish() -> None:
    """The garbage collector starts, and leaves out what exists. Each of its full passes would look at all modules and
    tests again: 40 % of a lane's collection, and then 1.6 s between two messages of a broker."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


class FromBothEnds(LoadFileScheduling):
    """The first lane takes the files from the end, where tests compute, the others from the front, where they wait for
    leases, servers and windows: together they use the machine all the time (decision 0065)."""

    def _split_scope(self, nodeid: str) -> str:
        """A file, one of the folders that stay together, or a test of the file that lanes share."""
        scope: str = super()._split_scope(nodeid)
        if scope == SHARED:
            return nodeid
        if scope == ALONE:
            return scope
        return next((folder for folder in TOGETHER if scope.startswith(folder)), scope)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id == "gw0":
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FromBothEnds | None:
    """None: what was asked for with --dist."""
    return FromBothEnds(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one lane more than cores, as tests wait about as long as they compute.

    One process for servers that were given: there the streams are shared, and each test begins by deleting them.
    """
    if chosen(os.environ.get(VARIABLE, "")).kind == "given":
        return 0
    return len(os.sched_getaffinity(0)) + 1


@pytest.fixture(autouse=True)
def as_nice_as_before() -> Iterator[None]:
    """A nice value cannot be lowered again, so a test that runs a service in here would slow the rest of its lane."""
    before = os.nice(0)
    yield
    assert os.nice(0) == before, "this test has made its lane nicer: run the service in a process of its own"
