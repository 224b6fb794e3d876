"""The three worked examples of the proposal, from machine descriptions, exactly (issue 46, section 4)."""

from __future__ import annotations

from qrm_seeds import MEMORY, Node, example_1, example_2, example_3, lend

from slackwater.kernels.topology.hints import Hint


def _cpus(node: Node, *pods: str) -> list[tuple[float, str]]:
    entries = [node.manager.entries[pod, "main"]["cpu"] for pod in pods]
    return [(entry.quantity, entry.result) for entry in entries]


def test_online_and_offline_pools_and_their_resize() -> None:
    node, cpu = example_1(4)
    node.admit("pod1", "online-micro_service", {"cpu": 4.0})
    node.admit("pod2", "ETL", {"cpu": 2.0})
    node.admit("pod3", "online-micro_service", {"cpu": 4.0})
    assert _cpus(node, "pod1", "pod2", "pod3") == [(76, "0-37,40-77"), (4, "38-39,78-79"), (76, "0-37,40-77")]
    lend(cpu, 28)
    assert len(node.reconcile().changed) == 3
    assert _cpus(node, "pod1", "pod2", "pod3") == [(28, "0-13,40-53"), (52, "14-39,54-79"), (28, "0-13,40-53")]
    assert node.reconcile().changed == frozenset()


def test_roles_that_are_kept_apart() -> None:
    node = example_2()
    assert sum(part.total - part.reserved for part in MEMORY) == 237_182_648_320 + 237_282_263_040
    storage = node.admit("pod1", "storage-service", {"cpu": 20.0, "memory": 40e9})
    assert (storage["cpu"].result, storage["memory"].result) == ("2-21", "0")
    assert storage["cpu"].hints == storage["memory"].hints == (Hint(1, preferred=True),)
    reranker = node.admit("pod2", "reranker", {"cpu": 10.0, "memory": 20e9})
    assert (reranker["cpu"].result, reranker["memory"].result) == ("42-51", "1")
    assert reranker["cpu"].hints == (Hint(2, preferred=True),)
    assert node.run("pod2").resources == {"CpusetCpus": "42-51", "CpusetMems": "1"}


def test_exclusive_cpus_near_a_shared_interface() -> None:
    node = example_3()
    requests = {"cpu": 10.0, "memory": 20e9, "NIC": 1.0}
    pods = [node.admit(name, "numa-enhancement", requests) for name in ("pod1", "pod2")]
    assert [pod["cpu"].result for pod in pods] == ["42-51", "52-61"]
    assert [pod["memory"].result for pod in pods] == ["1", "1"]
    for name, pod in zip(("pod1", "pod2"), pods, strict=True):
        assert (pod["NIC"].oci, pod["NIC"].is_scalar, pod["NIC"].hints) == ("", False, (Hint(2, preferred=True),))
        run = node.run(name)
        assert run.envs == {"AFFINITY_NIC_ADDR_IPV6": "fdbd:dc05:3:155::20"}
        assert run.annotations == {"kubernetes.io/host-netns-path": "/var/run/netns/ns1"}
