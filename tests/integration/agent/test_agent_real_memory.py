"""Memory of pods on this machine's real cgroups: the bound of all pods together."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from agent_machine import REPOSITORY, Machine, until

from slackwater.agent.domain.controls.memory_high import MEMORY_HIGH, MEMORY_PAUSE
from slackwater.agent.domain.controls.memory_protection import MEMORY_LOW, MEMORY_MIN
from slackwater.agent.domain.controls.node_memory import NODE_MEMORY
from slackwater.agent.domain.knobs import Target, Tree
from slackwater.agent.node_agent import AgentService
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import NotFound
from slackwater.model.tiers import Tier

pytestmark = pytest.mark.root
MIB = 1 << 20
CAP_SYS_RESOURCE = 24
STREAM = """
import os, sys
path, left = sys.argv[1], int(sys.argv[2]) << 20
with open(path, "wb", buffering=0) as file:
    for _ in range(left >> 20):
        file.write(b"x" * (1 << 20))
    os.fsync(file.fileno())
while True:
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
"""
GROW = """
import sys, time
held, goal = [], int(sys.argv[1])
while len(held) < goal:
    held.append(bytearray(b"x") * (1 << 20))
print("grown", flush=True)
time.sleep(1000)
"""
WAIT = """
import os, sys, time
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
"""
HOLD = "import sys, time; held = bytearray(b'x') * (int(sys.argv[1]) << 20); time.sleep(1000)"


def root_file(service: AgentService) -> Path:
    try:
        path = Path(service.driver.knob(NODE_MEMORY, Tree.ROOT).path)
    except NotFound as error:
        pytest.skip(f"this machine has no memory controller: {error.message}")
    if not path.exists():
        pytest.skip(f"this kernel has no {path.name}: `make cgroup2` runs another one")
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
        if not reports or (free := reports[-1].data.node_free_bytes) is None:
            return False
        return 100 * MIB < reports[-1].data.node_usage.memory_bytes.last < 200 * MIB and 0 < free < 200 * MIB

    async with machine.agent(memory_bytes=300 * MIB):
        await until(is_reported)
    job.terminate()
    await until(lambda: job.poll() is not None)


async def test_the_kernel_ends_a_pod_beyond_the_bound_and_exec_says_so(machine: Machine) -> None:
    keeper = machine.execute("sleep", "1000", tier="prod", flags=("--memory", "64Mi"))  # batch would be ended first
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


def used(file: Path) -> int:
    """What the pod of this limit's file holds now."""
    name = "memory.usage_in_bytes" if file.name == "memory.limit_in_bytes" else "memory.current"
    return int(file.with_name(name).read_text())


def throttle(uid: str, high_bytes: int) -> dict[str, object]:
    return {"pod_uid": uid, "memory_high_bytes": high_bytes, "decision_id": "d1"}


async def test_the_page_cache_of_a_streaming_pod_is_held_to_its_limit(machine: Machine, tmp_path: Path) -> None:
    stream = (sys.executable, "-c", STREAM, str(tmp_path / "file"), "300")
    job = machine.execute(*stream, flags=("--memory", "600Mi"))
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        root_file(service)
        file = Path(service.driver.knob(MEMORY_HIGH, pod.uid).path)
        before = file.read_text()
        await until(lambda: used(file) > 250 * MIB)
        await machine.declare(memory_throttles=[throttle(pod.uid, 128 * MIB)])
        await until(lambda: file.read_text().strip() == str(128 * MIB))
        await until(lambda: used(file) <= 130 * MIB)
        await until(lambda: [one for one in machine.published(IntentObserved) if one.data.memory_limits])
        assert service.driver.alive(pod.uid)
        usage = await until(
            lambda: [
                one
                for report in machine.published(UsageReported)
                for one in report.data.pods
                # A write of memory.high may reclaim far below it; the cache fills again.
                if one.memory_high_bytes == 128 * MIB and (one.reclaimable_bytes or 0) > 64 * MIB
            ]
        )
        original = before.strip()
        assert usage[-1].original_memory_high_bytes == (None if original == "max" else int(original))
        await machine.declare()
        await until(lambda: file.read_text() == before)
    assert service.restored_exactly
    assert job.poll() is None
    job.terminate()
    await until(lambda: job.poll() is not None)


async def test_a_pod_that_grows_under_its_limit_is_slowed_down_and_never_ended(
    machine: Machine, tmp_path: Path
) -> None:
    """Nor does it stand still: without the raised level, Linux 6.1 let it grow by 12 MiB in 57 s on cgroup v2."""
    go = tmp_path / "go"
    job = machine.execute(sys.executable, "-c", WAIT + GROW, "500", str(go), flags=("--memory", "800Mi"))
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        root_file(service)
        file = Path(service.driver.knob(MEMORY_HIGH, pod.uid).path)
        before = file.read_text()
        await machine.declare(memory_throttles=[throttle(pod.uid, 64 * MIB)])
        await until(lambda: file.read_text() != before)
        go.touch()
        await until(lambda: used(file) > 500 * MIB)
        assert service.driver.alive(pod.uid)
        assert job.poll() is None
    assert service.restored_exactly
    assert file.read_text() == before
    job.terminate()
    await until(lambda: job.poll() is not None)


async def test_a_pod_beyond_its_own_hard_limit_is_still_ended_by_the_kernel(machine: Machine, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = machine.execute(sys.executable, "-c", WAIT + GROW, "500", str(go), flags=("--memory", "200Mi"))
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        root_file(service)
        file = Path(service.driver.knob(MEMORY_HIGH, pod.uid).path)
        before = file.read_text()
        await machine.declare(memory_throttles=[throttle(pod.uid, 100 * MIB)])
        await until(lambda: file.read_text() != before)
        go.touch()
        assert await until(job.poll) == 137


async def test_memory_limits_are_given_back_after_a_kill(machine: Machine) -> None:
    job = machine.execute("sleep", "1000", flags=("--memory", "600Mi"))
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        root_file(service)
        knobs = [service.driver.knob(MEMORY_HIGH, pod.uid)]
        if machine.hierarchy.version != "v2":
            knobs.append(service.driver.knob(MEMORY_PAUSE, pod.uid))
        before = [service.driver.read(knob) for knob in knobs]
    line = [sys.executable, "-c", KILLED, str(machine.state_dir), machine.instance, pod.uid]
    killed = await asyncio.to_thread(subprocess.run, line, env=machine.environment, cwd=REPOSITORY, check=False)
    assert killed.returncode == -9
    assert [service.driver.read(knob) for knob in knobs] != before
    async with machine.agent() as again:
        assert again.recovery_report is not None
        assert again.recovery_report.exact
        assert [service.driver.read(knob) for knob in knobs] == before
    job.terminate()
    await until(lambda: job.poll() is not None)


KILLED = """
import os, sys
from pathlib import Path
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.linux.driver import linux_driver
from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.desired_state import DesiredState, MemoryLevel
from slackwater.agent.domain.weights import Policy
from slackwater.agent.usecases.actuate import Actuator
from slackwater.agent.usecases.apply_controls import ApplyControls
from slackwater.model.time import SystemClock

state_dir, instance, uid = sys.argv[1:]
driver = linux_driver(Path(state_dir), instance, SystemClock())
actuator = Actuator(driver, LinesJournal(Path(state_dir) / "agent/journal"))
state = DesiredState("w", 1, 0.0, 60.0, Policy.BY_REQUEST, memory_throttles=(MemoryLevel(uid, 64 << 20, "d"),))
ApplyControls(driver, actuator).apply([state], driver.pods(), MachineView(1000, 1.0, capacity_bytes=1 << 34))
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("protection", ["low", "min"])
async def test_the_memory_that_prod_requests_is_protected_and_given_back(machine: Machine, protection: str) -> None:
    """Within that of the tier and of the whole tree, without which the kernel counts none of it."""
    if machine.hierarchy.version != "v2":
        pytest.skip("cgroup v1 has no memory.low and no memory.min: `make cgroup2` runs this on v2")
    spec = MEMORY_LOW if protection == "low" else MEMORY_MIN
    prod = machine.execute("sleep", "1000", tier="prod", flags=("--memory", "96Mi"))
    batch = machine.execute("sleep", "1000", flags=("--memory", "64Mi"))
    async with machine.agent() as service:
        pods = {pod.tier: pod.uid for pod in await machine.pod(service, 2)}
        targets: tuple[Target, ...] = (Tree.ROOT, Tier.PROD, pods[Tier.PROD], pods[Tier.BATCH])
        files = [Path(service.driver.knob(spec, target).path) for target in targets]
        assert [file.read_text() for file in files] == ["0\n"] * 4
        await machine.declare(memory_protection=protection)
        await until(lambda: [file.read_text() for file in files] == [f"{96 * MIB}\n"] * 3 + ["0\n"])
    assert service.restored_exactly
    assert [file.read_text() for file in files] == ["0\n"] * 4
    for job in (prod, batch):
        job.terminate()
        await until(lambda job=job: job.poll() is not None)


async def test_exec_sets_the_oom_score_of_prod_where_it_may(machine: Machine) -> None:
    """A kernel lets a process with CAP_SYS_RESOURCE lower its score."""
    capabilities = re.search(r"CapEff:\s+([0-9a-f]+)", Path("/proc/self/status").read_text())
    assert capabilities is not None
    if not int(capabilities[1], 16) >> CAP_SYS_RESOURCE & 1:
        pytest.skip("no CAP_SYS_RESOURCE: run the tests as root outside of a container")
    shown = ("cat", "/proc/self/oom_score_adj")
    jobs = {
        tier: machine.execute(*shown, tier=tier, flags=("--memory", "64Mi"), piped=True) for tier in ("prod", "mid")
    }
    scores = {tier: (await asyncio.to_thread(job.communicate))[0].decode().strip() for tier, job in jobs.items()}
    assert scores == {"prod": "-997", "mid": "500"}


async def test_exec_sets_the_oom_score_of_its_tier(machine: Machine) -> None:
    shown = ("cat", "/proc/self/oom_score_adj")
    jobs = {
        tier: machine.execute(*shown, tier=tier, flags=("--memory", "64Mi"), piped=True) for tier in ("batch", "free")
    }
    scores = {tier: (await asyncio.to_thread(job.communicate))[0].decode().strip() for tier, job in jobs.items()}
    assert scores == {"batch": "950", "free": "1000"}
