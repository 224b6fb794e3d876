"""A machine of the simulated fleet starts the fleet's workloads, so that a pod that moves runs on another one."""

from __future__ import annotations

from tests.support.clock import EPOCH, FakeClock

from slackwater.agent.adapters.simulated import FLEET, SimulatedDriver
from slackwater.agent.adapters.simulated_launcher import SimulatedLauncher
from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.workload_template import node_labels
from slackwater.model.workload_labels import START_LABEL, TEMPLATE_LABEL, offered_label


async def test_a_launched_pod_is_like_the_one_that_left_and_both_machines_offer_its_file() -> None:
    old, new = (SimulatedDriver(name, 1, FakeClock(), started_at=EPOCH) for name in ("sim-1", "sim-2"))
    old.open()
    new.open()
    launcher = SimulatedLauncher(new)
    offered = node_labels(launcher.templates())
    assert set(offered) == {offered_label(workload) for workload in FLEET}
    (pod,) = [pod for pod in old.pods() if pod.workload == "orders"]
    assert pod.labels[TEMPLATE_LABEL] == offered[offered_label("orders")]
    old.terminate(pod.uid, 15)
    template = launcher.templates()["orders"]
    launcher.launch(template, "started-1", {START_LABEL: "job-1"}, 5.0)
    assert await launcher.is_ready(template)
    (started,) = [each for each in new.pods() if each.uid == "started-1"]
    assert (started.request, started.tier, started.workload) == (pod.request, pod.tier, pod.workload)
    assert started.labels == {**pod.labels, START_LABEL: "job-1"}
    assert new.read(new.knob(CPU_WEIGHT, "started-1")) == "1638", "1.6 cores"
    assert len({each.name for each in new.pods()}) == len(FLEET) + 1
