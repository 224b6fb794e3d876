"""Placing pods in the agent: what arrives, a full disk, a damaged checkpoint, a kubelet beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.clock import FakeClock

from slackwater.agent.adapters.linux.cpu_placement import memory_nodes, static_managers
from slackwater.agent.adapters.placement_files import CHECKPOINT, JsonPlacements, read_placements
from slackwater.agent.domain.resource_manager.checkpoint import Entries
from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.agent.usecases.preview_placement import preview_placement
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.plan_replay import basis_of
from slackwater.kernels.topology.pools import PoolDemand, PoolRules
from slackwater.model.errors import Unavailable
from slackwater.model.pods import LABEL_CPU_POOL, Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

MACHINE = CpuMachine(tuple(Cpu(cpu, cpu, 0, 0, 0) for cpu in range(4)))


@dataclass
class MemoryPlacements:
    """PlacementFiles in memory; `full`: the disk takes nothing."""

    entries: Entries | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    full: bool = False

    def load(self) -> Entries | None:
        return self.entries

    def save(self, entries: Entries) -> None:
        if self.full:
            raise Unavailable("the disk is full")
        self.entries = {key: dict(allocated) for key, allocated in entries.items()}

    def publish(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer


def _pod(uid: str, qos: QoSClass = QoSClass.LSR, milli: int = 1000) -> Pod:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Pod(uid, uid, "default", uid, Tier.PROD, qos, 9500, Resources(milli, 1 << 20), now)


def _placing(files: MemoryPlacements, arriving: list[Pod], present: Mapping[str, str] | None = None) -> PlacePods:
    demand = PoolDemand(rules=PoolRules(partitioned=False, named_apart=True, ramp_seconds=0.0))
    cpu = CpuPlugin(MACHINE, demand, CpuPluginRules(refuses_overcommitted=False))
    memory = MemoryPlugin([MemoryNode(0, 0, 1 << 30)])
    return PlacePods(cpu, memory, files, FakeClock(), lambda: arriving, lambda uid: (present or {}).get(uid, "0-3"))


def test_nothing_is_placed_while_no_pod_owns_cpus() -> None:
    files = MemoryPlacements()
    placing = _placing(files, [])
    placing.update([_pod("web", QoSClass.LS), _pod("batch", QoSClass.BE)])
    placing.publish()
    assert placing.cpusets == {}
    assert files.answer["others"] == {}


def test_an_arriving_pod_is_answered_after_the_others_have_their_new_cpus() -> None:
    files, arriving = MemoryPlacements(), list[Pod]()
    placing = _placing(files, arriving)
    web = _pod("web", QoSClass.LS)
    placing.update([web])
    arriving.append(_pod("lsr", milli=1500))
    placing.update([web])
    assert "lsr" not in files.answer.get("pods", {}), "the others move first"
    assert {uid: cpuset.cpus for uid, cpuset in placing.cpusets.items()} == {"lsr": "0-1", "web": "2-3"}
    placing.publish()
    assert files.answer["pods"]["lsr"]["cpus"] == "0-1"
    assert files.answer["others"]["BE"] == "2-3"
    arriving.clear()
    placing.update([web])
    assert placing.cpusets == {}


def test_a_pod_that_ended_gives_its_cpus_to_one_that_arrives_at_the_same_time() -> None:
    arriving = list[Pod]()
    placing = _placing(MemoryPlacements(), arriving)
    placing.update([_pod("old", milli=3000)])
    arriving.append(_pod("new", milli=3000))
    placing.update([])
    assert placing.refused == {}
    assert placing.cpusets["new"].cpus == "0-2"


def test_a_pool_by_name_is_apart_from_the_others_and_keeps_its_cpus_over_a_restart() -> None:
    files, pods = MemoryPlacements(), [_pod("web", QoSClass.LS), _pod("batch", QoSClass.BE)]
    blue = replace(_pod("blue", QoSClass.LS, 2000), labels={LABEL_CPU_POOL: "blue"})
    placing = _placing(files, [])
    placing.update([*pods, blue])
    cpus = {uid: cpuset.cpus for uid, cpuset in placing.cpusets.items()}
    assert cpus == {"blue": "0-1", "web": "2-3", "batch": "2-3"}
    assert placing.answer()["others"] == {"BE": "2-3", "LS": "2-3", "SYSTEM": "2-3"}
    again = _placing(files, [])
    again.update([_pod("lsr"), *pods, blue])
    assert {uid: cpuset.cpus for uid, cpuset in again.cpusets.items()} == {
        "blue": "0-1",
        "lsr": "2",
        "web": "3",
        "batch": "3",
    }
    again.update(pods)
    assert again.cpusets == {}


def test_a_preview_is_what_an_admission_gives_and_changes_nothing() -> None:
    files = MemoryPlacements()
    placing = _placing(files, [])
    placing.update([_pod("web", QoSClass.LS), _pod("lsr")])
    placing.publish()
    basis = basis_of({**json.loads(json.dumps(files.answer)), "now": 0.0})
    preview = preview_placement(basis, _pod("new", milli=2000))
    assert (preview.cpus, preview.refused) == ("1-2", "")
    assert [decision.sentence().partition(" (")[0] for decision in preview.pools] == ["share: 3 -> 1 CPUs"]
    assert "shared containers would have none" in preview_placement(basis, _pod("large", milli=3000)).refused
    placing.update([_pod("web", QoSClass.LS), _pod("lsr"), _pod("new", milli=2000)])
    assert placing.cpusets["new"].cpus == "1-2"


def test_where_the_disk_is_full_an_arriving_pod_is_refused_and_running_ones_stay() -> None:
    files = MemoryPlacements(full=True)
    placing = _placing(files, [_pod("lsr")])
    placing.update([_pod("web", QoSClass.LS)])
    placing.publish()
    assert files.answer["refused"] == {"lsr": "the disk is full"}
    assert "lsr" not in files.answer["pods"]


def test_a_running_pod_that_cannot_have_its_own_cpus_runs_beside_the_others() -> None:
    placing = _placing(MemoryPlacements(), [])
    placing.update([_pod("lsr"), _pod("large", milli=4000)])
    assert "4 are asked for and 3 are free" in placing.refused["large"]
    assert placing.cpusets["large"].cpus == "1-3"


def test_after_a_restart_each_pod_has_its_cpus_from_the_checkpoint_or_from_its_cgroup() -> None:
    files = MemoryPlacements()
    pods = [_pod("a"), _pod("b")]
    before = _placing(files, [])
    before.update(pods)
    cpus = {uid: cpuset.cpus for uid, cpuset in before.cpusets.items()}
    again = _placing(files, [])
    again.update(pods[::-1])
    assert {uid: cpuset.cpus for uid, cpuset in again.cpusets.items()} == cpus
    rebuilt = _placing(MemoryPlacements(), [], {"a": "3", "b": "1"})
    rebuilt.update(pods)
    assert {uid: cpuset.cpus for uid, cpuset in rebuilt.cpusets.items()} == {"a": "3", "b": "1"}


def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path) -> None:
    files = JsonPlacements(tmp_path)
    assert files.load() is None
    placing = _placing(MemoryPlacements(), [])
    placing.files = files
    placing.update([_pod("a")])
    placing.publish()
    assert files.load() is not None
    assert (read_placements(tmp_path) or {})["pods"].keys() == {"a"}
    (tmp_path / CHECKPOINT).write_text((tmp_path / CHECKPOINT).read_text().replace("CpusetCpus", "CpusetMems"))
    assert files.load() is None
    assert (tmp_path / f"{CHECKPOINT}.damaged").exists()
    assert not (tmp_path / CHECKPOINT).exists()


def test_beside_a_static_manager_of_a_kubelet_nothing_is_placed(tmp_path: Path) -> None:
    assert static_managers(tmp_path) == ""
    (tmp_path / "cpu_manager_state").write_text(json.dumps({"policyName": "none"}))
    assert static_managers(tmp_path) == ""
    (tmp_path / "cpu_manager_state").write_text(json.dumps({"policyName": "static"}))
    assert "static CPU manager is in force" in static_managers(tmp_path)
    (tmp_path / "cpu_manager_state").write_text("not JSON")
    (tmp_path / "memory_manager_state").write_text(json.dumps({"policyName": "Static"}))
    assert "static memory manager is in force" in static_managers(tmp_path)


def test_memory_nodes_are_those_with_memory(tmp_path: Path) -> None:
    for node, kib in ((0, 1024), (1, 0), (2, 2048)):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "meminfo").write_text(f"Node {node} MemTotal:       {kib} kB\n")
    machine = CpuMachine((Cpu(0, 0, 0, 0, 0), Cpu(1, 1, 1, 1, 1)), memory_nodes=frozenset({2}))
    assert memory_nodes(tmp_path, machine) == [MemoryNode(0, 0, 1 << 20), MemoryNode(2, 0, 2 << 20)]
