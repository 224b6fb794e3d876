"""The driver `kubernetes` in cgroups as a kubelet names and writes them, on fake trees and on the simulated kernel.

The simulated kernel has the rules of v1 and v2, knows which program wrote what, and what every file held before the
agent. No kubelet runs: tests/kubelet/stand_in.py writes what its sources say.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_fakes import fake_hierarchy
from tests.kubelet.cluster_node import ClusterNodeScene, throttle
from tests.kubelet.pods import NODE, container, node_pod
from tests.kubelet.simulated_node import SimulatedNode, simulated
from tests.kubelet.stand_in import KubeletStandIn, MountedMachine
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.knobs import ContainerOf
from slackwater.apiserver.records import NODES, PODS
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.nodes import PodDetail
from slackwater.model.placement_rules import NodeTaint, PlacementRules
from slackwater.model.pods import PodStatus
from slackwater.model.tiers import Tier

MIB = 1 << 20
BATCH = {"priority": 5500, "qos_class": "BestEffort"}


@pytest.fixture(params=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> SimulatedNode:
    return simulated(tmp_path, request.param == "v2")


# ---- where pods and containers are


@pytest.mark.parametrize("version", ["v1", "v1-comounted", "hybrid", "v2"])
@pytest.mark.parametrize(
    ("driver", "runtime"), [("systemd", "containerd"), ("cgroupfs", "cri-o"), ("systemd", "docker")]
)
async def test_pods_of_every_class_are_found_and_measured(
    tmp_path: Path, version: str, driver: str, runtime: str
) -> None:
    clock = FakeClock()
    kubelet = KubeletStandIn(MountedMachine(fake_hierarchy(tmp_path / "trees", version)), driver, runtime, ("kind",))
    kubelet.start()
    scene = ClusterNodeScene(kubelet, clock, tmp_path, MemoryBus(MemoryBroker(clock=clock)))
    uids = {
        scene.start(node_pod("g", container(cpu="1", cpu_limit="1"), qos_class="Guaranteed")): Tier.PROD,
        scene.start(node_pod("b", container(cpu="1"), qos_class="Burstable", priority=9000)): Tier.PROD,
        scene.start(node_pod("e", container(batch_cpu="500", batch_memory="64Mi"), **BATCH)): Tier.BATCH,
    }
    service = scene.service()
    async with scene.agent(service):
        await clock.advance(6)
        (report,) = scene.published(UsageReported)[:1]
        assert {pod.pod.uid: pod.pod.tier for pod in report.pods} == uids
        assert all(pod.usage.memory_bytes.last == 12288 for pod in report.pods)
        for uid in uids:
            knob = service.driver.knob(CPU_WEIGHT, uid)
            assert Path(knob.path).parent == Path(kubelet.file(kubelet.cgroup(uid), "cpu.stat")).parent
            inner = service.driver.knob(CPU_WEIGHT, ContainerOf(uid, "main"))
            assert Path(inner.path).parent == Path(kubelet.file(kubelet.containers[uid, "main"], "cpu.stat")).parent
        facts = scene.published(NodeDescribed)[0].facts
        assert (facts.name, facts.driver, facts.is_evicted_by_api_server) == (NODE, "kubernetes", True)


async def test_pods_of_other_nodes_and_those_that_have_ended_are_left_out(node: SimulatedNode) -> None:
    uid = node.start(node_pod("here"))
    node.api.put(PODS, node_pod("elsewhere", node="worker-2"))
    node.api.put(PODS, node_pod("not-started"))
    done = node.start(node_pod("done", phase="Succeeded"))
    service = node.service()
    async with node.agent(service):
        await node.clock.advance(1)
        assert [pod.uid for pod in service.driver.pods()] == [uid]
        assert done not in {pod.uid for pod in service.driver.pods()}
        node.stop(uid)
        assert service.driver.pods() == (), "the cgroup is gone, whatever the API server says"


async def test_restarts_rules_and_failed_pods_are_reported_with_the_taints_of_the_node(node: SimulatedNode) -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    cordon = {"key": "slackwater.io/cordoned", "effect": "NoSchedule"}
    have = {"cpu": "4", "memory": "8Gi", "pods": "7", "nvidia.com/gpu": "2", "slackwater.io/batch-cpu": "1000"}
    metadata = {"name": NODE, "uid": "n", "labels": {"zone": "a"}}
    node.api.put(NODES, {"metadata": metadata, "spec": {"taints": [taint, cordon]}, "status": {"allocatable": have}})
    uid = node.start(node_pod("here", nodeSelector={"zone": "b"}))
    failed = node_pod("failed", phase="Failed")
    failed["status"]["reason"] = "Evicted"
    node.api.put(PODS, failed)
    async with node.agent():
        await node.clock.advance(6)
        facts = node.published(NodeDescribed)[0].facts
        assert (facts.labels, facts.taints) == ({"zone": "a"}, (NodeTaint("dedicated", "db"),))
        assert set(facts.reports) == set(PodDetail)
        assert facts.resources == {"pods": 7, "nvidia.com/gpu": 2}
        (report,) = node.published(UsageReported)[:1]
        (pod,) = [pod.pod for pod in report.pods]
        assert (pod.uid, pod.rules) == (uid, PlacementRules(node_selector={"zone": "b"}))
        assert [(each.name, each.status) for each in report.failed_pods] == [
            ("failed", PodStatus(ready=False, phase="Failed", reason="Evicted"))
        ]
        node.api.put(NODES, {"metadata": metadata, "spec": {}})
        await node.clock.advance(31)
        assert node.published(NodeDescribed)[-1].facts.taints == ()


async def test_without_the_right_to_read_nodes_all_else_is_reported(node: SimulatedNode) -> None:
    node.api.forbidden.add(NODES.plural)
    node.start(node_pod("here"))
    async with node.agent():
        await node.clock.advance(6)
        facts = node.published(NodeDescribed)[0].facts
        assert PodDetail.RESTARTS in facts.reports
        assert PodDetail.NODE_TAINTS not in facts.reports
        assert len(node.published(UsageReported)[0].pods) == 1


async def test_before_the_pods_are_known_nothing_is_reported(node: SimulatedNode) -> None:
    node.api.is_down = True
    service = node.service()
    async with node.agent(service):
        node.start(node_pod("pod"))
        await node.clock.advance(30)
        assert node.published(UsageReported) == []
        assert [(check.name, check.ok) for check in await service.checks()][-1] == ("agent pods", False)
        node.api.is_down = False
        await node.clock.advance(12)
        assert [len(report.pods) for report in node.published(UsageReported)][:1] == [1]
        assert all(check.ok for check in await service.checks())


async def test_without_the_api_server_the_pods_read_last_are_measured_and_isolated(node: SimulatedNode) -> None:
    uid = node.start(node_pod("pod", container(batch_cpu="500"), **BATCH))
    async with node.agent() as service:
        await node.clock.advance(2)
        node.api.is_down = True
        node.api.cut()
        await node.clock.advance(20)
        assert [pod.uid for pod in service.driver.pods()] == [uid]
        assert node.limits(node.kubelet.cgroup(uid))[1] == 50_000
        assert not (await service.checks())[-1].ok


# ---- isolation


async def test_what_a_pod_borrows_is_its_weight_and_its_limit_and_all_goes_back(node: SimulatedNode) -> None:
    pod = node_pod(
        "crunch",
        container("a", batch_cpu="1500", batch_memory="1Gi"),
        container("b", batch_cpu="500", batch_memory="1000000000"),
        **BATCH,
    )
    other = node.start(node_pod("web", container(cpu="1", cpu_limit="2", memory="1Gi"), qos_class="Burstable"))
    uid = node.start(pod)
    others = {name: node.limits(name) for name in (node.kubelet.cgroup(other), node.kubelet.containers[other, "main"])}
    async with node.agent() as service:
        await node.clock.advance(3)
        memory = (1 << 30) + 1_000_000_000 // 65536 * 65536
        assert node.limits(node.kubelet.cgroup(uid)) == (
            node.shares(2000), 200_000, memory - memory % 65536 if node.kubelet.is_v2 else None,
        )  # fmt: skip
        assert node.limits(node.kubelet.containers[uid, "a"]) == (node.shares(1500), None, 1 << 30)
        assert node.limits(node.kubelet.containers[uid, "b"]) == (node.shares(500), None, 999_948_288)
        assert {name: node.limits(name) for name in others} == others, "the kubelet has given it what it asked for"
        await node.clock.advance(30)
        written = len(node.writes)
        await node.clock.advance(60)
        assert len(node.writes) == written, "what is in force is not written again"
    assert service.restored_exactly
    assert node.kernel.differences() == {}


async def test_only_cgroups_of_pods_are_written_and_what_the_kubelet_writes_every_minute_stays(
    node: SimulatedNode,
) -> None:
    """Neither by isolation nor by documents: weights of tiers and protection of prod are the kubelet's there."""
    node.start(node_pod("crunch", container(batch_cpu="500", batch_memory="64Mi"), **BATCH))
    node.start(node_pod("web", container(cpu="1", memory="1Gi"), qos_class="Burstable"))
    async with node.agent():
        await node.declare(weights="by-tier-idle", memory_protection="low")
        for _ in range(3):
            await node.clock.advance(30)
            node.kubelet.write_classes()
    assert node.writes
    assert {write.path.split("/pod")[0].split("-pod")[0] == write.path for write in node.writes} == {False}


async def test_cpu_can_be_left_to_weights(node: SimulatedNode) -> None:
    uid = node.start(node_pod("crunch", container(batch_cpu="500", batch_memory="64Mi"), **BATCH))
    async with node.agent(limit_borrowed_cpu=False):
        await node.clock.advance(3)
        assert node.limits(node.kubelet.cgroup(uid))[:2] == (node.shares(500), None)
        assert node.limits(node.kubelet.containers[uid, "main"])[2] == 64 * MIB


async def test_a_throttle_goes_below_what_was_borrowed_and_back_to_it(node: SimulatedNode) -> None:
    uid = node.start(node_pod("crunch", container(batch_cpu="2k"), **BATCH))
    async with node.agent() as service:
        await node.clock.advance(6)
        assert [pod.original_cpu_limit_milli for pod in node.published(UsageReported)[-1].pods] == [2000]
        assert not service._running.converge.throttling()  # type: ignore[union-attr]
        await node.declare(throttles=[throttle(uid, 700)])
        await node.clock.advance(2)
        assert node.limits(node.kubelet.cgroup(uid))[1] == 70_000
        (limit,) = node.published(IntentObserved)[-1].limits
        assert (limit.cpu_limit_milli, limit.error) == (700, None)
        await node.clock.advance(5)
        (pod,) = node.published(UsageReported)[-1].pods
        assert (pod.cpu_limit_milli, pod.original_cpu_limit_milli) == (700, 2000)
        await node.declare(throttles=[throttle(uid, 5000)])
        await node.clock.advance(2)
        assert node.limits(node.kubelet.cgroup(uid))[1] == 200_000
        await node.declare(throttles=[])
        await node.clock.advance(2)
        assert node.limits(node.kubelet.cgroup(uid))[1] == 200_000
    assert node.kernel.differences() == {}


async def test_containers_with_limits_are_throttled_with_their_pod(node: SimulatedNode) -> None:
    """cgroup v1 refuses a limit below that of a child."""
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    pod, inner = node.kubelet.cgroup(uid), node.kubelet.containers[uid, "main"]
    async with node.agent():
        for limit in (500, 300, 1500, 900):
            await node.declare(throttles=[throttle(uid, limit)])
            await node.clock.advance(4)
            assert node.limits(pod)[1] == limit * 100
            assert (node.limits(inner)[1] or 0) >= limit * 100
            assert [one.error for one in node.published(IntentObserved)[-1].limits] == [None]
        await node.declare(throttles=[])
        await node.clock.advance(2)
        assert (node.limits(pod)[1], node.limits(inner)[1]) == (200_000, 200_000)
    assert node.kernel.differences() == {}


# ---- what happens beside the agent


async def test_a_restarted_container_gets_its_share_again(node: SimulatedNode) -> None:
    uid = node.start(node_pod("crunch", container(batch_cpu="500", batch_memory="64Mi"), **BATCH))
    async with node.agent() as service:
        await node.clock.advance(3)
        before = node.kubelet.containers[uid, "main"]
        after = node.kubelet.start_container(uid, "main")
        assert after != before
        await node.clock.advance(3)
        assert node.limits(after) == (node.shares(0), None, None), "the status does not say yet that it runs"
        node.tell(uid)
        await node.clock.advance(2)
        assert node.limits(after) == (node.shares(500), None, 64 * MIB)
    assert service.restored_exactly
    assert node.kernel.differences() == {}


@pytest.mark.parametrize("said_after", [0.0, 3.0])
async def test_a_resize_in_place_is_the_pods_new_limit_and_no_foreign_writer(
    node: SimulatedNode, said_after: float
) -> None:
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    pod = node.kubelet.cgroup(uid)
    async with node.agent() as service:
        await node.declare(throttles=[throttle(uid, 1000)])
        await node.clock.advance(3)
        node.kubelet.resize(uid, "main", {"limits": {"cpu": "3"}})
        await node.clock.advance(said_after)
        node.tell(uid)
        await node.clock.advance(4)
        assert node.limits(pod)[1] == 100_000, "throttled again"
        assert node.published(IntentObserved)[-1].foreign_writers == ()
        await node.clock.advance(6)
        assert node.published(UsageReported)[-1].pods[0].original_cpu_limit_milli == 3000
    assert service.restored_exactly
    assert node.limits(pod)[1] == 300_000
    assert node.kernel.differences() == {}


async def test_a_resize_after_a_throttle_is_no_inexact_restore(node: SimulatedNode) -> None:
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    async with node.agent() as service:
        for limits in ([throttle(uid, 1000)], []):
            await node.declare(throttles=limits)
            await node.clock.advance(3)
        node.kubelet.resize(uid, "main", {"limits": {"cpu": "1500m"}})
        node.tell(uid)
        await node.clock.advance(3)
    assert service.restored_exactly
    assert node.kernel.differences() == {}


async def test_a_throttle_that_a_child_stood_against_goes_back_in_the_order_that_the_kernel_takes(
    node: SimulatedNode,
) -> None:
    """The container that runs now is unknown when the pod is throttled: on v1 its pod can be limited only later."""
    uid = node.start(node_pod("job", container(cpu="1", cpu_limit="2"), qos_class="Burstable", priority=5500))
    async with node.agent() as service:
        await node.clock.advance(1)
        node.kubelet.start_container(uid, "main")
        await node.declare(throttles=[throttle(uid, 1000)])
        await node.clock.advance(3)
        node.tell(uid)
        await node.clock.advance(3)
        assert node.limits(node.kubelet.cgroup(uid))[1] == 100_000
    assert service.restored_exactly
    assert node.kernel.differences() == {}


async def test_another_program_is_left_alone_and_reported(node: SimulatedNode) -> None:
    uid = node.start(node_pod("crunch", container(batch_cpu="500"), **BATCH))
    file = node.kubelet.file(node.kubelet.cgroup(uid), "cpu.max" if node.kubelet.is_v2 else "cpu.cfs_quota_us")
    async with node.agent() as service:
        await node.declare()
        await node.clock.advance(3)
        node.kubelet.machine.write(file, "123000")
        await node.clock.advance(30)
        assert node.kernel.text(file).split()[0] == "123000"
        assert node.published(IntentObserved)[-1].foreign_writers == (file,)
    assert not service.restored_exactly, "the report says that one file does not hold what it held"
    assert node.kernel.differences() == {}


@pytest.mark.parametrize("pure_v2", [False, True])
async def test_a_kubelet_restarted_with_the_other_cgroup_driver_is_found_again(tmp_path: Path, pure_v2: bool) -> None:
    """Its pods are made anew, by the same uid."""
    node = simulated(tmp_path, pure_v2, driver="cgroupfs")
    document = node_pod("crunch", container(batch_cpu="500", batch_memory="64Mi"), **BATCH)
    uid = node.start(document)
    async with node.agent() as service:
        await node.clock.advance(3)
        node.kubelet.start()  # a restart as such changes nothing
        assert node.limits(node.kubelet.cgroup(uid))[1] == 50_000
        node.kubelet.remove()
        node.kubelet = KubeletStandIn(node.kubelet.machine, "systemd")
        node.kubelet.start()
        await node.clock.advance(2)
        assert service.driver.pods() == ()
        node.start(document)
        await node.clock.advance(12)
        assert node.limits(node.kubelet.cgroup(uid))[1] == 50_000
        assert node.limits(node.kubelet.containers[uid, "main"])[2] == 64 * MIB
    assert service.restored_exactly
    assert node.kernel.differences() == {}


async def test_what_is_held_beyond_the_limit_is_not_killed_for_it(node: SimulatedNode) -> None:
    uid = node.start(node_pod("crunch", container(batch_cpu="500", batch_memory="64Mi"), **BATCH))
    inner = node.kubelet.containers[uid, "main"]
    group = node.kernel.group(inner)
    assert group is not None
    group.anonymous = 100 * MIB
    async with node.agent():
        await node.clock.advance(6)
        assert node.limits(inner)[2] is None
        assert group.oom_kills == 0
        group.anonymous = 10 * MIB
        await node.clock.advance(6)
        assert node.limits(inner)[2] == 64 * MIB


async def test_an_agent_that_was_killed_gives_back_what_it_had_written(node: SimulatedNode) -> None:
    node.start(node_pod("crunch", container(batch_cpu="500", batch_memory="64Mi"), **BATCH))
    service = node.service()
    async with node.agent(service):
        await node.clock.advance(3)
        journal = (node.state_dir / "agent/journal").read_bytes()
    (node.state_dir / "agent/journal").write_bytes(journal)
    before = len(node.writes)
    async with node.agent() as again:
        await node.clock.advance(3)
        assert again.recovery_report is not None
        assert again.recovery_report.exact
        assert len(node.writes) > before
    assert node.kernel.differences() == {}


async def test_the_agent_ends_no_pod(node: SimulatedNode) -> None:
    uid = node.start(node_pod("pod"))
    async with node.agent() as service:
        await node.clock.advance(1)
        service.driver.terminate(uid, 9)
        assert [pod.uid for pod in service.driver.pods()] == [uid]
