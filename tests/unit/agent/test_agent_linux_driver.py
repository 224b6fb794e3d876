"""The linux driver on fake cgroup trees: v1, co-mounted v1, v1 beside v2, and pure v2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_fakes import fake_hierarchy, pod
from tests.support.clock import FakeClock

from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.hierarchy import Hierarchy, hierarchy_of
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.lock import AgentLock, agent_runs
from slackwater.agent.adapters.linux.machine import numa_nodes, topology
from slackwater.agent.adapters.linux.meters import (
    busy_ns,
    free_memory,
    kept_free_bytes,
    memory_in_use,
    pressure_total_us,
)
from slackwater.agent.adapters.linux.processes import Process, process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.domain.weights import IDLE_SHARES, MIN_SHARES
from slackwater.model.errors import Conflict, Misconfigured, NotFound
from slackwater.model.nodes import NumaNode
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

VERSIONS = ("v1", "v1-comounted", "hybrid", "v2")


@pytest.fixture(params=VERSIONS)
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LinuxDriver]:
    layout = Layout(fake_hierarchy(tmp_path / "trees", request.param), "test", tmp_path / "state/agent", 4)
    found = LinuxDriver(layout, FakeClock())
    found.open()
    yield found
    found.close()


def start(driver: LinuxDriver, one: Pod, supervisor: Process | None = None) -> None:
    """What `slackwater exec` does, without a process."""
    registry = PodRegistry(driver.layout.agent_dir / "pods")
    registry.add(Entry(one, supervisor or process_of(os.getpid()), driver.layout.instance))
    driver.layout.make_pod(one.tier, one.uid)


def end(driver: LinuxDriver, one: Pod) -> None:
    driver.layout.hierarchy.remove(driver.layout.pod(one.tier, one.uid), with_children=True)
    PodRegistry(driver.layout.agent_dir / "pods").remove(one.uid)


def test_without_cpu_idle_the_smallest_weight_stands_for_it(driver: LinuxDriver) -> None:
    knob = driver.knob(CPU_WEIGHT, Tier.BATCH)
    smallest = driver.render(knob, MIN_SHARES)
    assert driver.render(knob, IDLE_SHARES) == smallest
    driver.write(knob, smallest)
    assert driver.read(knob) == smallest


def test_a_weight_and_cpu_idle_are_one_value(driver: LinuxDriver) -> None:
    knob = driver.knob(CPU_WEIGHT, Tier.BATCH)
    weight, idle = Path(knob.path), Path(knob.path).with_name("cpu.idle")
    idle.write_text("0\n")
    assert driver.render(knob, IDLE_SHARES) == "idle"
    assert driver.render(knob, 512) not in ("idle", "0")
    driver.write(knob, "idle")
    assert idle.read_text() == "1"
    for shown in ("3", "0", "1"):  # by kernels, while a group is idle
        weight.write_text(f"{shown}\n")
        assert driver.read(knob) == "idle"
    driver.write(knob, "39")
    assert (idle.read_text(), weight.read_text(), driver.read(knob)) == ("0", "39", "39")
    weight.write_text("3\n")
    assert driver.read(knob) == "3", "a small weight is no idle group"
    idle.unlink()


def test_a_pod_is_listed_measured_and_forgotten(driver: LinuxDriver) -> None:
    one = pod("uid-1")
    start(driver, one)
    assert driver.pods() == (one,)
    sample = driver.sample()
    [measured] = sample.pods
    assert (measured.cpu_ns, measured.memory_bytes) == (0, 12288)
    assert (measured.periods, measured.throttled_periods) == (0, 0)
    has_pressure = driver.layout.hierarchy.unified is not None
    assert (measured.psi.cpu_some_us == 0) is has_pressure
    assert (sample.tier_psi[Tier.PROD].cpu_some_us == 0) is has_pressure
    opened = driver._gauges.open_descriptors()
    end(driver, one)
    assert driver.pods() == ()
    assert driver.sample().pods == ()
    assert driver._gauges.open_descriptors() < opened
    with pytest.raises(NotFound):
        driver.knob(CPU_LIMIT, one.uid)


@pytest.mark.parametrize(("milli", "quota"), [(250, 25_000), (1, 1000), (1500, 150_000)])
def test_a_limit_is_a_quota_of_the_period_and_none_is_unlimited(driver: LinuxDriver, milli: int, quota: int) -> None:
    start(driver, pod("uid-1"))
    knob = driver.knob(CPU_LIMIT, "uid-1")
    original = driver.read(knob)
    assert driver.parse(knob, original) is None
    assert driver.render(knob, None) == original
    driver.write(knob, driver.render(knob, milli))
    pure_v2 = driver.layout.hierarchy.pure_v2
    assert driver.read(knob) == (f"{quota} 100000" if pure_v2 else str(quota))
    assert driver.parse(knob, driver.read(knob)) == max(milli, 10)


def test_a_limit_without_a_period_has_that_of_the_file(driver: LinuxDriver) -> None:
    start(driver, pod("uid-1"))
    knob = driver.knob(CPU_LIMIT, "uid-1")
    assert driver.parse(knob, "25000") == 250
    assert driver.parse(knob, "max" if driver.layout.hierarchy.pure_v2 else "-1") is None


def test_weights_are_shares_on_v1_and_weights_on_v2(driver: LinuxDriver) -> None:
    start(driver, pod("uid-1"))
    for target in ("uid-1", Tier.BATCH):
        knob = driver.knob(CPU_WEIGHT, target)
        driver.write(knob, driver.render(knob, 1024))
        assert driver.read(knob) == ("39" if driver.layout.hierarchy.pure_v2 else "1024")


def test_the_instance_weighs_like_the_whole_machine(driver: LinuxDriver) -> None:
    root = driver.layout.cpu_directory(driver.layout.root)
    if driver.layout.hierarchy.pure_v2:
        assert (root / "cpu.weight").read_text() == "157"
    else:
        assert (root / "cpu.shares").read_text() == "4096"


def test_the_tree_of_a_dead_supervisor_is_removed_and_a_stray_one_too(driver: LinuxDriver) -> None:
    dead = Process(os.getpid(), started_ticks=1)
    start(driver, pod("uid-dead"), dead)
    start(driver, pod("uid-alive"))
    driver.layout.make_pod(Tier.FREE, "uid-stray")
    driver.open()
    assert [item.uid for item in driver.pods()] == ["uid-alive"]
    left = {path.name for tree in driver.layout.hierarchy.trees() for path in tree.glob("slackwater-test/*/uid-*")}
    assert left == {"uid-alive"}


def test_closing_leaves_nothing_when_no_pod_is_left(driver: LinuxDriver) -> None:
    start(driver, pod("uid-1"))
    driver.close()
    assert all((tree / "slackwater-test").exists() for tree in driver.layout.hierarchy.trees())
    end(driver, pod("uid-1"))
    driver.close()
    assert not any((tree / "slackwater-test").exists() for tree in driver.layout.hierarchy.trees())


def test_on_pure_v2_controllers_are_enabled_above_pods_and_taken_back(tmp_path: Path) -> None:
    hierarchy = fake_hierarchy(tmp_path, "v2")
    layout = Layout(hierarchy, "test", tmp_path / "agent", 4)
    layout.make_pod(Tier.BATCH, "uid-1")
    mount = layout.cpu_directory("")
    for cgroup in ("", layout.root, layout.tier(Tier.BATCH)):
        assert (mount / cgroup / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (mount / layout.pod(Tier.BATCH, "uid-1") / "cgroup.subtree_control").read_text().strip() == ""
    hierarchy.remove(layout.pod(Tier.BATCH, "uid-1"))
    assert layout.remove_unused()
    assert (mount / "cgroup.subtree_control").read_text() == "-memory"
    assert not (tmp_path / "agent/controllers.json").exists()


def test_a_knob_outside_of_the_instance_is_refused(driver: LinuxDriver, tmp_path: Path) -> None:
    outside = tmp_path / "victim"
    outside.write_text("x")
    above = len(driver.layout.cpu_directory(driver.layout.root).relative_to(tmp_path).parts)
    sneaky = driver.layout.cpu_directory(driver.layout.root) / ("../" * above) / "victim"
    for path in (outside, sneaky):
        with pytest.raises(NotFound):
            driver.write(Knob(str(path), "cpu_limit"), "y")
    assert outside.read_text() == "x"


def test_system_pods_are_protected(driver: LinuxDriver) -> None:
    start(driver, pod("uid-1", Tier.PROD, qos=QoSClass.SYSTEM))
    start(driver, pod("uid-2"))
    assert "SYSTEM" in (driver.protected("uid-1") or "")
    assert driver.protected("uid-2") is None


def test_the_pod_that_holds_the_agent_says_so_in_every_report_and_no_other_can(driver: LinuxDriver) -> None:
    start(driver, pod("uid-1"))
    start(driver, pod("uid-2"))
    procs = driver.layout.cpu_directory(driver.layout.pod(Tier.BATCH, "uid-1")) / "cgroup.procs"
    procs.write_text(f"{os.getpid()}\n")
    driver.open()
    assert [one.labels for one in driver.pods()] == [{"slackwater.io/protected": "agent"}, {}]
    procs.write_text("")  # the process of this test would be ended with it


def test_the_pod_that_holds_the_agent_is_protected(driver: LinuxDriver) -> None:
    start(driver, pod("uid-1"))
    procs = driver.layout.cpu_directory(driver.layout.pod(Tier.BATCH, "uid-1")) / "cgroup.procs"
    procs.write_text(f"{os.getpid()}\n")
    assert "agent itself" in (driver.protected("uid-1") or "")
    procs.write_text("")


def test_a_broken_registry_file_is_no_pod(driver: LinuxDriver) -> None:
    start(driver, pod("uid-1"))
    for name, text in (("broken", "{"), ("alien", "[]"), ("..%2f", '{"uid": "../../etc"}')):
        (driver.layout.agent_dir / "pods" / f"{name}.json").write_text(text)
    assert [item.uid for item in driver.pods()] == ["uid-1"]


def line(mount: str, kind: str, options: str) -> str:
    return f"36 25 0:31 / {mount} rw,nosuid - {kind} {kind} {options}\n"


def test_trees_are_found_in_mountinfo(tmp_path: Path) -> None:
    v1 = line("/cg/cpu", "cgroup", "rw,cpu") + line("/cg/cpuacct", "cgroup", "rw,cpuacct")
    assert hierarchy_of(v1).version == "v1"
    comounted = hierarchy_of(line("/cg/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct") + line("/cg/m", "cgroup", "rw,memory"))
    assert comounted.trees() == (Path("/cg/cpu,cpuacct"), Path("/cg/m"))
    hybrid = hierarchy_of(v1 + line("/cg/uni\\040fied", "cgroup2", "rw"))
    assert (hybrid.version, hybrid.unified) == ("hybrid", Path("/cg/uni fied"))
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    pure = hierarchy_of(line(str(tmp_path), "cgroup2", "rw,nsdelegate"))
    assert (pure.version, pure.trees()) == ("v2", (tmp_path,))
    assert hierarchy_of("").version == "none"


def test_a_machine_without_cgroups_says_what_would_help(tmp_path: Path) -> None:
    reason = Hierarchy().why_unwritable()
    assert reason is not None
    assert "mount cgroup v2" in reason
    assert "\n" not in reason
    gone = tmp_path / "gone"
    with pytest.raises(Misconfigured, match="run as root"):
        Hierarchy(gone, gone, gone).require_writable()


def test_only_one_agent_per_state_directory(tmp_path: Path) -> None:
    first, second = AgentLock(tmp_path), AgentLock(tmp_path)
    assert not agent_runs(tmp_path)
    first.acquire()
    assert agent_runs(tmp_path)
    with pytest.raises(Conflict, match="another agent"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_meters_read_what_the_kernel_prints() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert busy_ns(b"cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0\n") == (1 + 2 + 3 + 6 + 7 + 8) * 1_000_000_000 // ticks
    assert busy_ns(None) is None
    assert memory_in_use(b"MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\n") == 40 * 1024
    assert memory_in_use(b"MemTotal: 100 kB\n") is None
    assert free_memory(b"MemTotal: 100 kB\nMemFree: 7 kB\n") == 7 * 1024
    assert free_memory(b"MemTotal: 100 kB\n") is None
    zones = b"Node 0, zone DMA\n        low      2\n        high     3\n              high:  9\nzone Normal\n high 4\n"
    assert kept_free_bytes(zones) == 7 * os.sysconf("SC_PAGE_SIZE")
    assert kept_free_bytes(None) == 0
    assert pressure_total_us(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=42\nfull ...\n") == 42
    assert pressure_total_us(b"") is None


def test_free_memory_is_what_the_bound_leaves_or_what_the_kernel_does_not_keep(
    driver: LinuxDriver, tmp_path: Path
) -> None:
    hierarchy = driver.layout.hierarchy
    tree = Path(f"{hierarchy.memory}/{driver.layout.root}")
    limit, used = (
        ("memory.max", "memory.current") if hierarchy.pure_v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    driver.measure_own_tree(True)
    for shown, free in (("900", 600), ("100", 0), ("max" if hierarchy.pure_v2 else str(2**63 - 4096), None)):
        (tree / limit).write_text(f"{shown}\n")
        (tree / used).write_text("300\n")
        assert driver.sample().node_free_bytes == free
    driver.measure_own_tree(False)
    driver._gauges.proc = tmp_path
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 50 kB\nMemAvailable: 60 kB\n")
    (tmp_path / "zoneinfo").write_text("        high     2\n")
    assert driver.sample().node_free_bytes == 50 * 1024 - 2 * os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\n")
    assert driver.sample().node_free_bytes == 0


def test_topology_counts_cores_and_sockets(tmp_path: Path) -> None:
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    (tmp_path / "devices/system/cpu/online").write_text("0-2,4\n")
    for cpu, (package, core) in {0: (0, 0), 1: (0, 0), 2: (0, 1), 4: (1, 0)}.items():
        place = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{package}\n")
        (place / "core_id").write_text(f"{core}\n")
    found = topology(tmp_path)
    assert (found.cpus, found.cores, found.sockets, found.numa_nodes) == (4, 3, 2, 1)


def test_several_numa_nodes_are_described_with_their_cpus_and_memory(tmp_path: Path) -> None:
    for number, (cpus, kilobytes) in {0: ("0-1", 100), 1: ("2-3", 200), 10: ("", 300)}.items():
        place = tmp_path / f"devices/system/node/node{number}"
        place.mkdir(parents=True)
        (place / "cpulist").write_text(f"{cpus}\n")
        (place / "meminfo").write_text(f"Node {number} MemTotal:       {kilobytes} kB\nNode {number} MemFree: 1 kB\n")
    assert numa_nodes(tmp_path) == (
        NumaNode("node0", Resources(2000, 100 * 1024)),
        NumaNode("node1", Resources(2000, 200 * 1024)),
    )
    (tmp_path / "devices/system/node/node1/cpulist").write_text("\n")  # memory without CPUs is no zone
    assert numa_nodes(tmp_path) == ()
