"""CPUs of their own for LSR pods on this machine, read from the kernel: `Cpus_allowed_list` of the processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from agent_machine import Machine, until

from slackwater.agent.adapters.placement_files import CHECKPOINT
from slackwater.agent.domain.controls.cpusets import CPUSET_CPUS
from slackwater.agent.node_agent import AgentService
from slackwater.kernels.topology.cpu_list import cpu_list_text, parse_cpu_list

ALL = frozenset(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(ALL) < 2, reason="one CPU cannot be shared out")
_ALLOWED = "grep Cpus_allowed_list /proc/self/status; sleep 60"


def _allowed(service: AgentService, workload: str) -> frozenset[int]:
    """The CPUs that the only pod of a tier may run on, as its cgroup says."""
    (uid,) = [pod.uid for pod in service.driver.pods() if pod.qos == workload]
    return parse_cpu_list(service.driver.read(service.driver.knob(CPUSET_CPUS, uid)))


def _first_line(process: subprocess.Popen[bytes]) -> frozenset[int]:
    assert process.stdout is not None
    with process.stdout as lines:
        return parse_cpu_list(lines.readline().decode().partition(":")[2].strip())


async def _end_all(machine: Machine, service: AgentService) -> None:
    for process in machine.commands:
        process.terminate()
    await until(lambda: all(process.poll() is not None for process in machine.commands))
    await until(lambda: not service.driver.pods())


async def test_an_lsr_pod_starts_on_cpus_of_its_own_and_the_others_move(machine: Machine) -> None:
    async with machine.agent() as service:
        machine.execute("sleep", "60", tier="prod", flags=("--cpu", "100m"))
        machine.execute("sleep", "60", flags=("--cpu", "1"))
        await machine.pod(service, 2)
        assert _allowed(service, "LS") == _allowed(service, "BE") == ALL
        lsr = machine.execute("sh", "-c", _ALLOWED, tier="prod", flags=("--qos", "LSR", "--cpu", "1"), piped=True)
        await machine.pod(service, 3)
        own = _first_line(lsr)
        assert len(own) == 1
        assert own == _allowed(service, "LSR")
        assert _allowed(service, "LS") == _allowed(service, "BE") == ALL - own
        late = machine.execute("sh", "-c", _ALLOWED, flags=("--cpu", "1"), piped=True)
        await machine.pod(service, 4)
        assert _first_line(late) == ALL - own, "a pod that comes later is never on it, not even at its start"
        late.terminate()
        lsr.terminate()
        await until(lambda: len(service.driver.pods()) == 2)
        await until(lambda: _allowed(service, "LS") == _allowed(service, "BE") == ALL)
        await _end_all(machine, service)
    assert service.restored_exactly


async def test_what_would_leave_the_others_no_cpu_is_refused_and_does_not_start(
    machine: Machine, tmp_path: Path
) -> None:
    mark = tmp_path / "started"
    async with machine.agent() as service:
        whole = ("--qos", "LSE", "--cpu", str(len(ALL)))
        process = machine.execute("touch", str(mark), tier="prod", flags=whole)
        assert await until(lambda: process.poll() is not None and (process.returncode,)) == (125,)
        assert service.placement is not None
    assert not mark.exists()


async def test_a_stopped_agent_gives_the_others_their_cpus_back_and_the_next_one_finds_the_lsr_pod(
    machine: Machine,
) -> None:
    """Also where the checkpoint is damaged: it is set aside, and rebuilt from the cgroups."""
    async with machine.agent() as service:
        machine.execute("sleep", "60", flags=("--cpu", "1"))
        lsr = machine.execute("sh", "-c", _ALLOWED, tier="prod", flags=("--qos", "LSR", "--cpu", "1"), piped=True)
        await machine.pod(service, 2)
        own = _first_line(lsr)
        await until(lambda: _allowed(service, "BE") == ALL - own)
    assert service.restored_exactly
    folder = machine.state_dir / "agent"
    file = folder / CHECKPOINT
    file.write_text(file.read_text().replace(cpu_list_text(own), "7"))
    async with machine.agent() as service:
        await until(lambda: _allowed(service, "BE") == ALL - own)
        assert _allowed(service, "LSR") == own
        await _end_all(machine, service)
    assert (folder / f"{CHECKPOINT}.damaged").exists()


async def test_a_switched_off_agent_says_so_and_the_pod_starts(machine: Machine) -> None:
    async with machine.agent(exclusive_cpus=False) as service:
        lsr = machine.execute("sh", "-c", _ALLOWED, tier="prod", flags=("--qos", "LSR", "--cpu", "1"), piped=True)
        await machine.pod(service, 1)
        assert _first_line(lsr) == ALL
        assert service.placement is not None
        assert service.placement.answer() == {"off": "SLACKWATER_AGENT_EXCLUSIVE_CPUS is off"}
        await _end_all(machine, service)


async def test_a_pool_by_name_has_cpus_of_its_own_and_a_resize_moves_what_runs(machine: Machine) -> None:
    """On two CPUs the pools {0} and {1}; the second pod of the pool joins it, and the others keep the rest."""
    async with machine.agent() as service:
        machine.execute("sleep", "60", flags=("--cpu", "1"))
        await machine.pod(service, 1)
        assert _allowed(service, "BE") == ALL
        blue = machine.execute("sh", "-c", _ALLOWED, tier="prod", flags=("--pool", "blue", "--cpu", "100m"), piped=True)
        await machine.pod(service, 2)
        own = _first_line(blue)
        assert len(own) == 1
        assert own == _allowed(service, "LS")
        await until(lambda: _allowed(service, "BE") == ALL - own)
        joined = machine.execute(
            "sh", "-c", _ALLOWED, tier="prod", flags=("--pool", "blue", "--cpu", "100m"), piped=True
        )
        await machine.pod(service, 3)
        assert _first_line(joined) == own
        for process in (blue, joined):
            process.terminate()
        await until(lambda: _allowed(service, "BE") == ALL)
        await _end_all(machine, service)
    assert service.restored_exactly
