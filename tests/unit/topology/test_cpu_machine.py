"""A machine from sysfs: sparse ids, an offline CPU, a node with memory alone, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.adapters.linux.cpu_machine import read_machine
from slackwater.kernels.topology.cpu_list import MOST_CPUS, cpu_list_text, parse_cpu_list, parse_distances
from slackwater.kernels.topology.machine import Cpu, CpuMachine, UnitLevel
from slackwater.model.errors import InvalidInput


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / "devices/system" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


def two_sockets() -> dict[str, str]:
    files = {"cpu/online": "0,2-4,6-7"}
    for cpu, (core, socket, cache) in {0: ("0,4", 0, "0,4"), 4: ("0,4", 0, "0,4"), 2: ("2,6", 1, "2-3,6-7")}.items():
        files |= _files(cpu, core, socket, cache)
    for cpu, core in {6: "2,6", 3: "3,7", 7: "3,7"}.items():
        files |= _files(cpu, core, 1, "2-3,6-7")
    for node, (cpus, distance) in {0: ("0-1,4", "10 21 40"), 1: ("2-3,6-7", "21 10 40"), 7: ("", "40 40 10")}.items():
        files |= {f"node/node{node}/cpulist": cpus, f"node/node{node}/distance": distance}
    return files


def _files(cpu: int, core: str, socket: int, cache: str) -> dict[str, str]:
    place = f"cpu/cpu{cpu}"
    return {
        f"{place}/topology/thread_siblings_list": core,
        f"{place}/topology/physical_package_id": str(socket),
        f"{place}/cache/index0/level": "1",
        f"{place}/cache/index0/shared_cpu_list": core,
        f"{place}/cache/index3/level": "3",
        f"{place}/cache/index3/shared_cpu_list": cache,
    }


def test_two_sockets_with_an_offline_cpu_and_a_node_of_memory(tmp_path: Path) -> None:
    found = read_machine(write(tmp_path, two_sockets()))
    assert found.ids == {0, 2, 3, 4, 6, 7}
    assert found.by_id[7] == Cpu(7, core=3, cache=2, numa=1, socket=1)
    assert found.units(UnitLevel.CORE) == {0: {0, 4}, 2: {2, 6}, 3: {3, 7}}
    assert found.numa_nodes == (0, 1)
    assert found.memory_nodes == {7}
    assert found.distances[0] == {0: 10, 1: 21, 7: 40}
    assert found.distance_sum((0, 1)) == 62


def test_a_kernel_without_numa_and_caches_has_one_node(tmp_path: Path) -> None:
    found = read_machine(write(tmp_path, {"cpu/online": "0-1"}))
    assert [(cpu.numa, cpu.socket, cpu.core) for cpu in found.cpus] == [(0, 0, 0), (0, 0, 1)]
    assert found.distances == {}


def test_this_machine_can_be_read() -> None:
    found = read_machine(Path("/sys"))
    assert found.cpus
    assert sum(map(len, found.units(UnitLevel.CORE).values())) == len(found.cpus)


def test_no_cpus_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="names no CPU"):
        read_machine(tmp_path)


def test_a_cpu_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        CpuMachine((Cpu(0, 0, 0, 0, 0), Cpu(0, 1, 0, 0, 0)))


@given(st.frozensets(st.integers(0, 300)))
def test_a_list_of_cpus_reads_as_it_was_written(cpus: frozenset[int]) -> None:
    assert parse_cpu_list(cpu_list_text(cpus)) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "1-2-3", str(MOST_CPUS), "٣"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cpus"):
        parse_cpu_list(text)


def test_distances_are_numbers() -> None:
    assert parse_distances("10  21\n") == (10, 21)
    with pytest.raises(InvalidInput, match="distance"):
        parse_distances("10 -21")
