"""Pods of a kubelet whose CPU burst stands against a throttle, on the simulated kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kubelet.cluster_node import throttle
from tests.kubelet.pods import container, node_pod
from tests.kubelet.simulated_node import SimulatedNode, simulated

from slackwater.events.intent_observed import IntentObserved


@pytest.fixture(params=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> SimulatedNode:
    return simulated(tmp_path, request.param == "v2")


@pytest.mark.parametrize("burst_us", [200_000, 50_000])
async def test_a_burst_above_a_throttle_goes_first_and_comes_back_exactly(node: SimulatedNode, burst_us: int) -> None:
    """The kernel refuses a quota below the burst (EINVAL): the pod was never throttled."""
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    pod = node.kubelet.cgroup(uid)
    groups = [pod, node.kubelet.containers[uid, "main"]]
    name = "cpu.max.burst" if node.kubelet.is_v2 else "cpu.cfs_burst_us"
    for group in groups:
        node.kubelet.machine.write(node.kubelet.file(group, name), str(burst_us))

    def bursts() -> list[str]:
        return [node.text(group, name) for group in groups]

    async with node.agent() as service:
        await node.declare(throttles=[throttle(uid, 1000)])
        await node.clock.advance(3)
        assert node.limits(pod)[1] == 100_000
        assert bursts()[0] == ("0" if burst_us > 100_000 else str(burst_us))
        await node.declare(throttles=[throttle(uid, 300)])
        await node.clock.advance(3)
        assert (node.limits(pod)[1], bursts()[0]) == (30_000, "0")
        await node.declare(throttles=[throttle(uid, 1000)])
        await node.clock.advance(3)
        assert node.limits(pod)[1] == 100_000
        assert bursts()[0] == ("0" if burst_us > 100_000 else str(burst_us))
        await node.declare()
        await node.clock.advance(3)
        assert node.limits(pod)[1] == 200_000
        assert bursts() == [str(burst_us)] * 2
        await node.declare(throttles=[throttle(uid, 300)])
        await node.clock.advance(3)
        assert not node.published(IntentObserved)[-1].foreign_writers
    assert service.restored_exactly
    assert bursts() == [str(burst_us)] * 2
    assert node.kernel.differences() == {}


def set_burst(node: SimulatedNode, group: str, burst_us: int) -> None:
    name = "cpu.max.burst" if node.kubelet.is_v2 else "cpu.cfs_burst_us"
    node.kubelet.machine.write(node.kubelet.file(group, name), str(burst_us))


def burst(node: SimulatedNode, group: str) -> str:
    return node.text(group, "cpu.max.burst" if node.kubelet.is_v2 else "cpu.cfs_burst_us")


async def test_a_burst_comes_back_after_an_agent_that_ended_while_it_throttled(node: SimulatedNode) -> None:
    """The next agent finds a burst of 0, which is its own writing, not the one to come back to."""
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    pod = node.kubelet.cgroup(uid)
    set_burst(node, pod, 150_000)
    async with node.agent():
        await node.declare(throttles=[throttle(uid, 1000)])
        await node.clock.advance(3)
        assert (node.limits(pod)[1], burst(node, pod)) == (100_000, "0")
    async with node.agent() as service:
        await node.clock.advance(3)
        await node.declare()
        await node.clock.advance(3)
    assert service.restored_exactly
    assert (node.limits(pod)[1], burst(node, pod)) == (200_000, "150000")


async def test_a_container_that_restarts_while_its_pod_is_throttled_keeps_its_burst(tmp_path: Path) -> None:
    """On v2, where a group may have more than the one above it."""
    node = simulated(tmp_path, pure_v2=True)
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    pod = node.kubelet.cgroup(uid)
    async with node.agent() as service:
        await node.declare(throttles=[throttle(uid, 1000)])
        await node.clock.advance(3)
        again = node.kubelet.start_container(uid, "main")
        node.tell(uid)
        set_burst(node, again, 180_000)
        await node.clock.advance(3)
        assert node.limits(pod)[1] == 100_000
        await node.declare()
        await node.clock.advance(3)
        assert (node.limits(pod)[1], burst(node, again)) == (200_000, "180000")
    assert service.restored_exactly


@pytest.mark.parametrize("later_us", [120_000, 50_000])
async def test_another_writer_may_set_a_burst_while_a_pod_is_throttled(node: SimulatedNode, later_us: int) -> None:
    """Koordlet's cpuBurst writes it each second. Below the throttle it stays, and above it the kernel refuses it."""
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    pod = node.kubelet.cgroup(uid)
    async with node.agent() as service:
        await node.declare(throttles=[throttle(uid, 1000)])
        await node.clock.advance(3)
        try:
            set_burst(node, pod, later_us)
        except OSError:
            assert later_us > 100_000
        await node.clock.advance(3)
        assert node.limits(pod)[1] == 100_000
        await node.declare(throttles=[throttle(uid, 300)])
        await node.clock.advance(3)
        assert node.limits(pod)[1] == 30_000
        await node.declare()
        await node.clock.advance(3)
        assert node.limits(pod)[1] == 200_000
        assert burst(node, pod) == (str(later_us) if later_us < 100_000 else "0")
    assert service.restored_exactly
