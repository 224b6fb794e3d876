"""What the driver `kubernetes` refuses: paths outside pods, machines without a kubelet, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_fakes import fake_hierarchy
from tests.kubelet.cluster_node import ClusterNodeScene
from tests.kubelet.simulated_node import simulated
from tests.kubelet.stand_in import KubeletStandIn, MountedMachine
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.domain.knobs import Knob, Tree
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.tiers import Tier


def test_a_journal_cannot_lead_above_a_pod(tmp_path: Path) -> None:
    node = simulated(tmp_path, pure_v2=False)
    driver = node.service().driver
    above = [node.kubelet.file("kubepods.slice", "cpu.shares"), "/etc/passwd", "/sys/fs/cgroup/cpu/cpu.shares"]
    above += [node.kubelet.file("kubepods.slice/kubepods-besteffort.slice", "cpu.shares")]
    for path in (*above, node.kubelet.file("system.slice/pod00000000.slice", "cpu.shares")):
        with pytest.raises(NotFound):
            driver.read(Knob(path, "cpu_weight"))
        with pytest.raises(NotFound):
            driver.write(Knob(path, "cpu_weight"), "2")
    for target in (Tier.PROD, Tree.ROOT):
        with pytest.raises(NotFound):
            driver.knob(CPU_LIMIT, target)


def test_a_machine_without_a_kubelet_says_what_is_missing(tmp_path: Path) -> None:
    clock = FakeClock()
    kubelet = KubeletStandIn(MountedMachine(fake_hierarchy(tmp_path, "v2")))
    driver = ClusterNodeScene(kubelet, clock, tmp_path, MemoryBus()).service().driver
    with pytest.raises(Misconfigured, match=r"no cgroup kubepods below .* SLACKWATER_AGENT_CGROUP_ROOT"):
        driver.open()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"node": None}, "needs the node's name"), ({"memory_bytes": 1 << 30}, "which the kubelet owns")],
)
def test_settings_that_do_not_go_with_a_kubelet_are_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    node = simulated(tmp_path, pure_v2=True)
    with pytest.raises(Misconfigured, match=message):
        node.service(**settings)
