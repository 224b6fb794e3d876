"""The driver `kubernetes` in real cgroups with real processes, in trees as a kubelet builds them.

No kubelet and no container runtime run: tests/kubelet/stand_in.py makes the cgroups and writes them as their sources
say, below a cgroup root of the test's own. The kernel, its refusals, the processes and the agent are real.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_machine import Machine, until
from tests.kubelet.cluster_node import ClusterNodeScene, throttle
from tests.kubelet.pods import container, node_pod
from tests.kubelet.stand_in import KubeletStandIn, MountedMachine
from tests.support.bus import MemoryBus

from slackwater.agent.adapters.linux.processes import kill_all
from slackwater.agent.domain.weights import shares_of_request, weight_of_shares
from slackwater.events.usage_reported import UsageReported
from slackwater.model.time import SystemClock

pytestmark = pytest.mark.root
MIB = 1 << 20
FAST = {"sample_seconds": 0.1, "report_seconds": 0.3}
BATCH = {"priority": 5500, "qos_class": "BestEffort"}
SPIN = "print('up', flush=True)\nwhile True: pass"
IDLE = "import time; print('up', flush=True); time.sleep(1000)"
GROW = (
    "import sys; print('up', flush=True); sys.stdin.readline(); held = bytearray(b'x') * (200 << 20); print(len(held))"
)


class RealNode(ClusterNodeScene):
    """With processes in the containers."""

    processes: list[subprocess.Popen[bytes]]

    def work(self, uid: str, name: str, program: str) -> subprocess.Popen[bytes]:
        """Start a program in a container; returns once it runs there."""
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        self.move(process, self.kubelet.containers[uid, name])
        return process

    def move(self, process: subprocess.Popen[bytes], cgroup: str) -> None:
        assert isinstance(self.kubelet.machine, MountedMachine)
        for tree in self.kubelet.machine.trees():
            (tree / cgroup / "cgroup.procs").write_text(str(process.pid))

    def texts(self) -> dict[str, str]:
        assert isinstance(self.kubelet.machine, MountedMachine)
        top = self.kubelet.cgroup(next(iter(self.kubelet.pods))).split("/")[0]
        return self.kubelet.machine.texts(top)

    def text(self, cgroup: str, v1: str, v2: str) -> str:
        return Path(self.kubelet.file(cgroup, v2 if self.kubelet.is_v2 else v1)).read_text().split()[0]

    def quota(self, cgroup: str) -> str:
        return self.text(cgroup, "cpu.cfs_quota_us", "cpu.max")

    def memory(self, cgroup: str) -> str:
        return self.text(cgroup, "memory.limit_in_bytes", "memory.max")

    def weight(self, cgroup: str) -> str:
        return self.text(cgroup, "cpu.shares", "cpu.weight")

    def weight_of(self, milli: int) -> str:
        shares = shares_of_request(milli)
        return str(weight_of_shares(shares) if self.kubelet.is_v2 else shares)


@pytest.fixture(params=[("systemd", "containerd"), ("cgroupfs", "cri-o")], ids=["systemd", "cgroupfs"])
def node(request: pytest.FixtureRequest, machine: Machine) -> Iterator[RealNode]:
    driver, runtime = request.param
    cgroups = MountedMachine(machine.hierarchy)
    kubelet = KubeletStandIn(cgroups, driver, runtime, (f"kubelet{machine.instance}".replace("-", ""),))
    scene = RealNode(kubelet, SystemClock(), machine.state_dir, MemoryBus())
    scene.processes = []
    try:
        kubelet.start()
        yield scene
    finally:
        for process in scene.processes:
            process.kill()
            process.communicate()
        kubelet.remove()
        top = kubelet.root[0] + (".slice" if driver == "systemd" else "")
        left = [path for tree in cgroups.trees() for path in tree.glob(f"{top}*")]
        for directory in left:
            kill_all([directory])
            for path in sorted(directory.glob("**/"), key=lambda path: len(path.parts), reverse=True):
                path.rmdir()
    assert left == [], f"left behind: {left}"


async def test_pods_of_all_classes_are_measured_isolated_throttled_and_given_back(node: RealNode) -> None:
    """Every file of every cgroup reads afterwards as before."""
    prod = node.start(
        node_pod("web", container(cpu="1", cpu_limit="1", memory="64Mi", memory_limit="64Mi"), qos_class="Guaranteed")
    )
    job = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    uid = node.start(
        node_pod(
            "crunch",
            container("spin", batch_cpu="150", batch_memory="64Mi"),
            container("idle", batch_cpu="50", batch_memory="32Mi"),
            **BATCH,
        )
    )
    for name, program in (("spin", SPIN), ("idle", IDLE)):
        node.work(uid, name, program)
    node.work(prod, "main", IDLE)
    node.kubelet.write_classes()
    before = node.texts()
    pod, spin = node.kubelet.cgroup(uid), node.kubelet.containers[uid, "spin"]
    async with node.agent(**FAST) as service:
        await until(lambda: node.quota(pod) == "20000" and node.memory(spin) == str(64 * MIB))
        assert (node.weight(pod), node.weight(spin)) == (node.weight_of(200), node.weight_of(150))
        assert {one.uid for one in service.driver.pods()} == {prod, job, uid}

        def measured() -> bool:
            pods = {one.pod.uid: one for report in node.published(UsageReported)[-1:] for one in report.pods}
            usage = pods[uid].usage.cpu_milli.last if uid in pods else None
            return bool(usage) and (pods[uid].throttled_ratio or 0) > 0

        await until(measured)
        for limit in (1000, 600, 1500):
            await node.declare(throttles=[throttle(uid, 100), throttle(job, limit)])
            await until(lambda limit=limit: node.quota(node.kubelet.cgroup(job)) == str(limit * 100))  # type: ignore[misc]
        await until(lambda: node.quota(pod) == "10000")
        node.kubelet.write_classes()
    assert service.restored_exactly
    assert node.texts() == before


async def test_a_container_that_exceeds_what_it_borrowed_ends_and_its_neighbour_does_not(node: RealNode) -> None:
    uid = node.start(
        node_pod(
            "two",
            container("a", batch_cpu="1k", batch_memory="32Mi"),
            container("b", batch_cpu="1k", batch_memory="64Mi"),
            **BATCH,
        )
    )
    greedy, modest = node.work(uid, "a", GROW), node.work(uid, "b", IDLE)
    async with node.agent(**FAST):
        await until(lambda: node.memory(node.kubelet.containers[uid, "a"]) == str(32 * MIB))
        assert greedy.stdin is not None
        greedy.stdin.write(b"\n")
        greedy.stdin.flush()
        assert await until(greedy.poll) == -signal.SIGKILL
        assert modest.poll() is None


async def test_restarts_resizes_and_ends_of_pods_are_followed(node: RealNode) -> None:
    uid = node.start(node_pod("crunch", container(batch_cpu="150", batch_memory="64Mi"), **BATCH))
    job = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    first = node.work(uid, "main", IDLE)
    async with node.agent(**FAST) as service:
        await until(lambda: node.memory(node.kubelet.containers[uid, "main"]) == str(64 * MIB))
        first.kill()
        first.wait()
        again = node.kubelet.start_container(uid, "main")
        node.tell(uid)
        node.work(uid, "main", IDLE)
        await until(lambda: node.memory(again) == str(64 * MIB) and node.weight(again) == node.weight_of(150))
        await node.declare(throttles=[throttle(job, 1000)])
        await until(lambda: node.quota(node.kubelet.cgroup(job)) == "100000")
        node.kubelet.resize(job, "main", {"limits": {"cpu": "3"}})
        node.tell(job)
        await until(lambda: node.quota(node.kubelet.cgroup(job)) == "100000")
        node.processes[-1].kill()
        node.processes[-1].wait()
        node.stop(uid)
        await until(lambda: [one.uid for one in service.driver.pods()] == [job])
    assert service.restored_exactly
    assert node.quota(node.kubelet.cgroup(job)) == "300000"
