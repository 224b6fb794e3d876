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
