"""Drawn histories of a node: whatever a kubelet does beside the agent, only files of pods are written, and all goes
back to what the kubelet wrote last."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kubelet.cluster_node import throttle
from tests.kubelet.pods import container, node_pod
from tests.kubelet.simulated_node import SimulatedNode, simulated
from tests.kubelet.stand_in import KubeletStandIn

from slackwater.agent.domain.kubelet_cgroups import is_below_a_pod

KINDS: dict[str, dict[str, Any]] = {
    "borrows": {"priority": 5500, "qos_class": "BestEffort"},
    "limited": {"priority": 5500, "qos_class": "Burstable"},
    "prod": {"priority": 9000, "qos_class": "Guaranteed"},
}
CONTAINERS = {
    "borrows": lambda: container(batch_cpu="800", batch_memory="64Mi"),
    "limited": lambda: container(cpu="500m", cpu_limit="2"),
    "prod": lambda: container(cpu="1", cpu_limit="1", memory="64Mi", memory_limit="64Mi"),
}
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from(sorted(KINDS))),
        st.tuples(st.sampled_from(["stop", "restart", "tell", "minute", "cut", "agent", "reroot"]), st.integers(0, 3)),
        st.tuples(st.just("resize"), st.sampled_from(["1500m", "2", "2500m"])),
        st.tuples(st.just("throttle"), st.integers(100, 3000)),
        st.tuples(st.just("wait"), st.sampled_from([0.3, 1.0, 4.0, 12.0])),
    ),
    max_size=14,
)


class KubeletHistory:
    """Applies drawn events; what does not apply (a stop without pods) changes nothing."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node, self.number = node, 0

    async def apply(self, event: str, argument: Any) -> None:
        pods = sorted(self.node.kubelet.pods)
        if event in ("stop", "restart", "tell"):
            if pods:
                self._happen_to(pods[argument % len(pods)], event)
        elif event == "wait":
            await self.node.clock.advance(argument)
        elif event == "throttle":
            await self.node.declare(throttles=[throttle(uid, argument) for uid in pods])
        else:
            self._happen(event, argument, pods)

    def _happen_to(self, uid: str, event: str) -> None:
        match event:
            case "stop":
                self.node.stop(uid)
            case "restart":
                self.node.kubelet.try_restart(uid, "main")
            case "tell":
                self.node.tell(uid)

    def _happen(self, event: str, argument: Any, pods: list[str]) -> None:
        node = self.node
        match event:
            case "start":
                self.number += 1
                node.start(node_pod(f"pod-{self.number}", CONTAINERS[argument](), **KINDS[argument]))
            case "resize":
                for uid in pods:
                    if node.kubelet.pods[uid]["status"]["qosClass"] == "Burstable":
                        node.kubelet.try_resize(uid, "main", {"limits": {"cpu": argument}})
                        node.tell(uid)
            case "minute":
                node.kubelet.write_classes()
            case "cut":
                node.api.cut()
            case "reroot" if not pods:  # a kubelet restarted with the other cgroup driver, after a drain
                driver = "cgroupfs" if node.kubelet.driver == "systemd" else "systemd"
                node.kubelet.remove()
                node.kubelet = KubeletStandIn(node.kubelet.machine, driver)
                node.kubelet.start()


async def run(folder: Path, pure_v2: bool, events: list[tuple[str, Any]]) -> None:
    node = simulated(folder, pure_v2)
    history, parts = KubeletHistory(node), [list[tuple[str, Any]]()]
    for event in events:
        if event[0] == "agent":  # a restart of the agent
            parts.append([])
        else:
            parts[-1].append(event)
    for part in parts:
        async with node.agent() as service:
            await node.clock.advance(1)
            for event, argument in part:
                await history.apply(event, argument)
                await node.clock.advance(0.4)
            for uid in node.kubelet.pods:
                node.tell(uid)
            await node.clock.advance(12)
            for uid, document in node.kubelet.pods.items():
                if document["status"]["qosClass"] == "BestEffort":
                    inner = node.kubelet.containers[uid, "main"]
                    assert node.limits(inner)[::2] == (node.shares(800), 64 << 20)
                    assert (node.limits(node.kubelet.cgroup(uid))[1] or 1 << 40) <= 80_000
        assert service.restored_exactly
        assert node.kernel.differences() == {}
    assert all(is_below_a_pod(write.path) for write in node.writes)


@settings(max_examples=max(12, settings().max_examples // 4))
@given(events=EVENTS)
@example(events=[("start", "limited"), ("throttle", 1600), ("resize", "1500m")])  # before the first sample of the pod
@example(events=[("start", "limited"), ("throttle", 100), ("resize", "2500m")])
@example(events=[("start", "limited"), ("throttle", 100), ("restart", 0)])  # refused on v1
@pytest.mark.parametrize("pure_v2", [False, True], ids=["v1", "v2"])
def test_whatever_a_kubelet_does_all_goes_back_to_what_it_wrote(
    tmp_path_factory: pytest.TempPathFactory, pure_v2: bool, events: list[tuple[str, Any]]
) -> None:
    asyncio.run(run(tmp_path_factory.mktemp("node"), pure_v2, events))
