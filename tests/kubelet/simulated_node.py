"""A node of Kubernetes on the simulated kernel, which knows what every file held before the agent."""

from __future__ import annotations

from pathlib import Path

from tests.kubelet.cluster_node import ClusterNodeScene
from tests.kubelet.stand_in import KernelMachine, KubeletStandIn
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.world.machine.kernel import AGENT, Kernel, Write

from slackwater.agent.domain.weights import shares_of_request, weight_of_shares


class SimulatedNode(ClusterNodeScene):
    """On the simulated kernel; `writes` are the agent's."""

    kernel: Kernel
    clock: FakeClock
    writes: list[Write]

    def text(self, cgroup: str, name: str) -> str:
        return self.kernel.text(self.kubelet.file(cgroup, name)).strip()

    def limits(self, cgroup: str) -> tuple[int, int | None, int | None]:
        """Shares, CPU quota per 100 ms and memory limit, in the notation of v1."""
        unlimited = {"-1", "max", str((1 << 63) - 4096)}
        quota = self.text(cgroup, "cpu.max" if self.kubelet.is_v2 else "cpu.cfs_quota_us").split()[0]
        memory = self.text(cgroup, "memory.max" if self.kubelet.is_v2 else "memory.limit_in_bytes")
        shares = self.text(cgroup, "cpu.weight" if self.kubelet.is_v2 else "cpu.shares")
        return int(shares), None if quota in unlimited else int(quota), None if memory in unlimited else int(memory)

    def shares(self, milli: int) -> int:
        shares = shares_of_request(milli)
        return weight_of_shares(shares) if self.kubelet.is_v2 else shares


def simulated(tmp_path: Path, pure_v2: bool, driver: str = "systemd", runtime: str = "containerd") -> SimulatedNode:
    clock, writes = FakeClock(), list[Write]()
    kernel = Kernel(pure_v2, lambda: None, wrote=lambda write: writes.append(write) if write.by == AGENT else None)
    kubelet = KubeletStandIn(KernelMachine(kernel), driver, runtime)
    kubelet.start()
    scene = SimulatedNode(kubelet, clock, tmp_path, MemoryBus(MemoryBroker(clock=clock)), kernel)
    scene.writes = writes
    return scene
