"""A simulated fleet with faults reports what the plugins of descheduling look for."""

from __future__ import annotations

import signal

import pytest
from tests.support.clock import FakeClock

from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.domain.simulated_faults import TAINT, ZONE, FleetFault, faults_of, is_spare
from slackwater.model.nodes import PodDetail
from slackwater.model.placement_rules import PlacementRules, PodToleration
from slackwater.model.pods import PodStatus


def driver(*faults: FleetFault) -> SimulatedDriver:
    clock = FakeClock()
    made = SimulatedDriver("sim-01", 1, clock, started_at=clock.now(), faults=frozenset(faults))
    made.open()
    return made


def test_every_fifth_node_has_the_faults_from_the_first_on() -> None:
    assert [number for number in range(1, 12) if faults_of(number, tuple(FleetFault))] == [1, 6, 11]
    assert [number for number in range(1, 12) if is_spare(number, tuple(FleetFault))] == [4, 9]
    assert not any(is_spare(number, ()) for number in range(1, 12))


def test_without_faults_all_pods_run_well_and_everything_is_known() -> None:
    machine = driver()
    assert all(pod.status is None and pod.rules is None for pod in machine.pods())
    assert machine.sample().failed_pods == ()
    facts = machine.facts()
    assert (facts.taints, set(facts.reports), facts.labels) == ((), set(PodDetail), {ZONE: "b"})


@pytest.mark.parametrize(
    ("fault", "workload", "expected"),
    [
        (FleetFault.RESTARTS, "crunch", PodStatus(restarts=137, reason="CrashLoopBackOff")),
        (FleetFault.NOT_READY, "index", PodStatus(ready=False, reason="ReadinessProbeFailed")),
        (FleetFault.TAINTED, "quotes", PlacementRules(tolerations=(PodToleration(TAINT.key),))),
        (FleetFault.MISPLACED, "quotes", PlacementRules(node_selector={ZONE: "a"})),
    ],
)
def test_each_fault_changes_one_pod(fault: FleetFault, workload: str, expected: object) -> None:
    machine = driver(fault)
    changed = [pod for pod in machine.pods() if pod.status or pod.rules]
    assert [(pod.workload, pod.status or pod.rules) for pod in changed] == [(workload, expected)]
    assert machine.facts().taints == ((TAINT,) if fault is FleetFault.TAINTED else ())


def test_a_failed_pod_is_listed_until_it_is_evicted() -> None:
    machine = driver(FleetFault.FAILED)
    (failed,) = machine.sample().failed_pods
    assert (failed.workload, failed.status) == ("orders", PodStatus(ready=False, phase="Failed", reason="OOMKilled"))
    machine.terminate(failed.uid, signal.SIGKILL)
    assert machine.sample().failed_pods == ()
    assert len(machine.pods()) == 4
