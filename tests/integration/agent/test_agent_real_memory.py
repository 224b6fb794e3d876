"""Memory of pods on this machine's real cgroups: the bound of all pods together."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from agent_machine import REPOSITORY, Machine, until

from slackwater.agent.domain.controls.node_memory import NODE_MEMORY
from slackwater.agent.domain.knobs import Tree
from slackwater.agent.node_agent import AgentService
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import NotFound

pytestmark = pytest.mark.root
MIB = 1 << 20
HOLD = "import sys, time; held = bytearray(b'x') * (int(sys.argv[1]) << 20); time.sleep(1000)"


def root_file(service: AgentService) -> Path:
    try:
        path = Path(service.driver.knob(NODE_MEMORY, Tree.ROOT).path)
    except NotFound as error:
        pytest.skip(f"this machine has no memory controller: {error.message}")
    if not path.exists():
        pytest.skip(f"this kernel has no {path.name}")
    return path


async def test_a_bounded_agent_limits_its_tree_and_gives_the_limit_back(machine: Machine) -> None:
    job = machine.execute("sleep", "1000", flags=("--memory", "64Mi"))  # keeps the tree after the agent
    async with machine.agent() as service:
        await machine.pod(service)
        before = root_file(service).read_text()
    async with machine.agent(memory_bytes=300 * MIB) as service:
        file = root_file(service)
        await until(lambda: file.read_text().strip() == str(300 * MIB))
        [described] = machine.published(NodeDescribed)[-1:]
        assert described.data.facts.capacity.memory_bytes == 300 * MIB
    assert service.restored_exactly
    assert file.read_text() == before
    job.terminate()
    await until(lambda: job.poll() is not None)


async def test_the_memory_of_a_bounded_node_is_that_of_its_pods(machine: Machine) -> None:
    job = machine.execute(sys.executable, "-c", HOLD, "100", flags=("--memory", "200Mi"))

    def is_reported() -> bool:
        reports = machine.published(UsageReported)
        return bool(reports) and 100 * MIB < reports[-1].data.node_usage.memory_bytes.last < 200 * MIB

    async with machine.agent(memory_bytes=300 * MIB):
        await until(is_reported)
    job.terminate()
    await until(lambda: job.poll() is not None)


async def test_the_kernel_ends_a_pod_beyond_the_bound_and_exec_says_so(machine: Machine) -> None:
    keeper = machine.execute("sleep", "1000", flags=("--memory", "64Mi"))
    async with machine.agent(memory_bytes=150 * MIB) as service:
        file = root_file(service)
        await until(lambda: file.read_text().strip() == str(150 * MIB))
        line = [sys.executable, "-m", "slackwater.cli", "exec", "--tier", "prod", "--workload", "growing"]
        ended = await asyncio.to_thread(
            subprocess.run,
            [*line, "--memory", "64Mi", "--", sys.executable, "-c", HOLD, "400"],
            env=machine.environment, cwd=REPOSITORY, check=False, capture_output=True, text=True,
        )  # fmt: skip
    assert ended.returncode == 137
    assert "the kernel killed a process of it for want of memory (OOM)" in ended.stderr
    [noted] = (machine.state_dir / "agent/oom-kills").read_text().splitlines()
    assert (json.loads(noted)["tier"], json.loads(noted)["processes"]) == ("prod", 1)
    keeper.terminate()
    await until(lambda: keeper.poll() is not None)
