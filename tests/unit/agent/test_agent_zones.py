"""Which NUMA zone a pod is bound to: the affinity of all its processes, published in its description."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agent_fakes import fake_hierarchy, pod
from tests.support.clock import FakeClock

from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.adapters.linux.zones import Zones, zones_of
from slackwater.model.pods import LABEL_NUMA, Pod

CPUS = {"node0": frozenset(range(4)), "node1": frozenset(range(4, 8))}


def machine(root: Path, *cpulists: str) -> Path:
    for number, cpus in enumerate(cpulists):
        place = root / f"sys/devices/system/node/node{number}"
        place.mkdir(parents=True)
        (place / "cpulist").write_text(f"{cpus}\n")
    return root / "sys"


def process(root: Path, pid: int, cpus: str, memories: str) -> int:
    place = root / "proc" / str(pid)
    place.mkdir(parents=True, exist_ok=True)
    (place / "status").write_text(
        f"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{memories}\n"
    )
    return pid


def test_zones_are_those_with_cpus_where_there_are_two(tmp_path: Path) -> None:
    assert zones_of(machine(tmp_path / "two", "0-3", "4-7", "")).cpus == CPUS
    assert zones_of(machine(tmp_path / "one", "0-7", "")).cpus == {}
    assert zones_of(tmp_path / "none").cpus == {}


@pytest.mark.parametrize(
    ("allowed", "zone"),
    [
        ([("0-3", "0")], "node0"),
        ([("5", "1"), ("4,6", "1")], "node1"),
        ([("0-7", "0-1")], None),
        ([("0-3", "0-1")], None),
        ([("0-3", "1")], None),
        ([("3-4", "0")], None),
        ([("0-3", "0"), ("4-7", "1")], None),
        ([("0-3", "0"), ("0-7", "0-1")], None),
        ([("", "")], None),
        ([], None),
    ],
)
def test_a_pod_is_bound_where_every_process_has_cpus_and_memory_in_one_zone(
    tmp_path: Path, allowed: list[tuple[str, str]], zone: str | None
) -> None:
    pids = [process(tmp_path, number + 1, *each) for number, each in enumerate(allowed)]
    assert Zones(CPUS, tmp_path / "proc").of([*pids, 4711]) == zone, "4711 is gone already"


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[LinuxDriver]:
    layout = Layout(fake_hierarchy(tmp_path / "trees", "v2"), "test", tmp_path / "state/agent", 8)
    found = LinuxDriver(layout, FakeClock(), zones=Zones(CPUS, tmp_path / "proc"))
    found.open()
    yield found
    for uid in ("a", "b"):
        layout.hierarchy.remove(layout.pod(pod(uid).tier, uid), with_children=True)
    found.close()


def start(driver: LinuxDriver, one: Pod, *pids: int) -> None:
    PodRegistry(driver.layout.agent_dir / "pods").add(Entry(one, process_of(os.getpid()), driver.layout.instance))
    driver.layout.make_pod(one.tier, one.uid)
    for directory in driver.layout.hierarchy.directories(driver.layout.pod(one.tier, one.uid)):
        (directory / "cgroup.procs").write_text("\n".join(map(str, pids)))


def zones(driver: LinuxDriver) -> dict[str, str | None]:
    return {one.uid: one.labels.get(LABEL_NUMA) for one in driver.pods()}


def empty(driver: LinuxDriver) -> None:
    """So that they can be removed again: nothing runs there."""
    for tree in driver.layout.hierarchy.trees():
        for file in tree.glob("slackwater-test/*/*/cgroup.procs"):
            file.write_text("")


def test_a_description_changes_only_when_the_zone_does(driver: LinuxDriver, tmp_path: Path) -> None:
    process(tmp_path, 1, "0-3", "0")
    start(driver, pod("a"), 1)
    start(driver, replace(pod("b"), labels={LABEL_NUMA: "node7"}), 1)
    assert zones(driver) == {"a": "node0", "b": "node7"}, "the declaration of its supervisor counts"
    before = driver.pods()
    process(tmp_path, 1, "4-7", "1")
    for _ in range(29):
        driver.sample()
        assert all(now is then for now, then in zip(driver.pods(), before, strict=True))
    driver.sample()
    assert zones(driver) == {"a": "node1", "b": "node7"}
    moved = driver.pods()
    for _ in range(30):
        driver.sample()
    assert all(now is then for now, then in zip(driver.pods(), moved, strict=True)), "looked at again, and the same"
    process(tmp_path, 1, "0-7", "0-1")
    for _ in range(30):
        driver.sample()
    assert zones(driver) == {"a": None, "b": "node7"}
    empty(driver)


def test_a_pod_that_comes_is_looked_at_at_once_and_one_that_goes_is_forgotten(
    driver: LinuxDriver, tmp_path: Path
) -> None:
    process(tmp_path, 1, "0-3", "0")
    driver.sample()
    start(driver, pod("a"), 1)
    assert zones(driver) == {"a": "node0"}
    empty(driver)
    PodRegistry(driver.layout.agent_dir / "pods").remove("a")
    driver.layout.hierarchy.remove(driver.layout.pod(pod("a").tier, "a"), with_children=True)
    assert zones(driver) == {}
    assert driver._bound == {}


def test_on_one_zone_nothing_is_read(tmp_path: Path) -> None:
    layout = Layout(fake_hierarchy(tmp_path / "trees", "v2"), "test", tmp_path / "state/agent", 8)
    driver = LinuxDriver(layout, FakeClock(), zones=Zones({}, tmp_path / "proc"))
    driver.open()
    start(driver, pod("a"), 1)
    assert zones(driver) == {"a": None}
    empty(driver)


def test_the_kernel_says_it_of_a_real_process() -> None:
    """Half of this machine's CPUs as a zone of their own, its memory as zone 0."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU only: it takes two")
    here = Zones({"node0": frozenset(cpus[:1]), "node1": frozenset(cpus[1:])})
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        assert here.of([sleeper.pid]) is None
        os.sched_setaffinity(sleeper.pid, cpus[:1])
        if "Mems_allowed_list:\t0\n" in Path(f"/proc/{sleeper.pid}/status").read_text():
            assert here.of([sleeper.pid]) == "node0"
        os.sched_setaffinity(sleeper.pid, cpus[1:])
        assert here.of([sleeper.pid]) is None, "its memory is elsewhere"
    finally:
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
