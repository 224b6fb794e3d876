"""kill -9 of an agent during throttling and evicting: limits converge again, and no action happens twice."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nats.errors import Error as NatsError
from tests.faults.audit import messages
from tests.faults.ledger import Key, Ledger, Outcome, read
from tests.faults.machine import effects, limits
from tests.faults.oracle import Findings, compare
from tests.faults.scenario import Result, Skipped, Strictness, percentile
from tests.faults.supervisor import REPOSITORY, Memory, Program, python_path, slackwater, until

from slackwater.agent.adapters.linux.driver import linux_driver
from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import CpuThrottle, Eviction, IntentDeclared
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.state import StateDir

NODE, WRITER = "kernel-1", "faults"
RECOVERY_SECONDS = 5.0


@dataclass(slots=True)
class Writer:
    """Declares intents for one node and records the requested evictions in a ledger."""

    bus: NatsBus
    ledger: Ledger
    lease_seconds: float
    node: str = NODE
    generation: int = 0
    throttles: dict[str, int] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)

    async def declare(self) -> None:
        """Publish the whole document, with retries until the broker has it."""
        self.generation += 1
        now = datetime.now(UTC)
        document = IntentDeclared(
            node=self.node, writer=WRITER, generation=self.generation, declared_at=now,
            lease_seconds=self.lease_seconds, evictions=tuple(self.evictions),
            throttles=tuple(CpuThrottle(pod_uid=uid, cpu_limit_milli=limit, decision_id="d")
                            for uid, limit in self.throttles.items()),
        )  # fmt: skip
        event = event_of(document, source=WRITER, time=now)
        while True:
            try:
                await self.bus.publish(event)
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                return

    def evict(self, pod_uid: str, grace_seconds: float = 0.2) -> str:
        """Add the eviction to all further documents."""
        id_ = new_id()
        self.ledger.meant(Key("eviction", id_))
        self.evictions.append(
            Eviction(
                id=id_,
                pod_uid=pod_uid,
                grace_seconds=grace_seconds,
                reason="test",
                decision_id="d",
                deadline=datetime.now(UTC) + timedelta(minutes=10),
            )
        )
        self.ledger.came(Key("eviction", id_), Outcome.ACKED)
        return id_


def agent_program(folder: Path, url: str) -> Program:
    command = [sys.executable, "-m", "tests.faults.machine", "--nats", url, "--folder", str(folder), "--node", NODE]
    return Program("agent", command, folder, {})


async def completed(bus: NatsBus, ledger: Ledger) -> Findings:
    """Exactly one completion for each requested eviction."""
    told = [Key("eviction", json.loads(body)["id"]) for _, body in await messages(bus, "eviction.completed")]
    meant = {key: outcome for key, outcome in read(ledger.path).items() if key.kind == "eviction"}
    return compare(meant, told)


def double_effects(folder: Path) -> Findings:
    """No pod is terminated twice."""
    ended = Counter(str(line["pod"]) for line in effects(folder) if line["what"] == "signal" and line["ended"])
    twice = [pod for pod, count in ended.items() if count > 1]
    return Findings(duplicates=len(twice), examples=tuple(f"ended twice: {pod}" for pod in twice[:3]))


async def kill_simulated(folder: Path, strictness: Strictness, times: int) -> Result:
    """Kills the agent `times` times, at moments spread over its work; its machine survives."""
    result, memory = Result(), Memory()
    async with AsyncExitStack() as stack:
        broker = EmbeddedNats(folder / "nats")
        stack.push_async_callback(broker.stop)
        bus = await stack.enter_async_context(connect_bus(await broker.start(), name="harness"))
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        writer = Writer(bus, ledger, lease_seconds=120)
        agent = agent_program(folder, broker.url)
        stack.push_async_callback(agent.stop)
        await agent.start()
        crunch = f"{NODE}-crunch"
        victims = [f"{NODE}-index"]
        for number in range(times):
            wanted = 300 + number
            writer.throttles[crunch] = wanted
            if number == times // 2:
                writer.evict(victims[0])
            if number == times // 2 + 1:
                writer.evict("no-such-pod")
            await writer.declare()
            await asyncio.sleep(0.07 * (number % 6))  # before, in and after the writes
            at = time.time()
            memory.look("agent", agent.pid)
            agent.kill()

            async def converged(wanted: int = wanted, at: float = at) -> bool:
                return agent.pid != 0 and limits(folder).get(crunch) == str(wanted) and await _alive_since(bus, at)

            await until(converged, 60, f"the machine has limit {wanted} again", 0.03)
            result.recovery_seconds.append(time.time() - at)
        await until(lambda: _all_told(bus, ledger), 30, "every eviction was told")
        result.findings = await completed(bus, ledger) + double_effects(folder)
        memory.look("agent", agent.pid)
        status = await agent.stop()
        after = limits(folder)
        result.promise("the agent left every limit as it had found it", after.get(crunch) == "max")
        result.promise("its last stop was orderly", status == 0)
    return _judged(result, memory, times, strictness)


async def _alive_since(bus: NatsBus, at: float) -> bool:
    """Whether the running agent, not the previous one, has answered or reported."""
    try:
        last = await bus.jetstream.get_last_msg("STATE", f"sw.v1.node.described.*.{NODE}")
    except (NatsError, TimeoutError):
        return False
    described = datetime.fromisoformat((last.headers or {})["ce-time"])
    return described.timestamp() > at


async def _all_told(bus: NatsBus, ledger: Ledger) -> bool:
    return (await completed(bus, ledger)).lost == 0


def _judged(result: Result, memory: Memory, times: int, strictness: Strictness) -> Result:
    bound = RECOVERY_SECONDS * strictness.patience
    result.promise(f"killed {times} times and back each time", len(result.recovery_seconds) == times)
    result.promise(f"back within {bound:g} s (p99)", percentile(result.recovery_seconds, 0.99) <= bound)
    result.max_rss_bytes = max(memory.highest.values(), default=0)
    return result


async def kill_real(folder: Path, strictness: Strictness, times: int) -> Result:
    """The same on real cgroups with a real job: the quota converges to the intent, and finally to the original."""
    hierarchy = find_hierarchy()
    if (reason := hierarchy.why_unwritable()) is not None:
        raise Skipped(f"real cgroups: {reason}")
    result, memory = Result(), Memory()
    state = folder / "state"
    async with AsyncExitStack() as stack:
        broker = EmbeddedNats(folder / "nats")
        stack.push_async_callback(broker.stop)
        bus = await stack.enter_async_context(connect_bus(await broker.start(), name="harness"))
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        environment = {"SLACKWATER_STATE_DIR": str(state), "SLACKWATER_AGENT_SAMPLE_SECONDS": "0.25"}
        command = [*slackwater(), "agent", "--nats", broker.url, "--node", NODE, "--state-dir", str(state)]
        agent = Program("agent", command, folder, environment)
        await agent.start()
        stack.push_async_callback(agent.stop)
        await until(lambda: _exists(state / "agent"), 30, "the agent has begun")
        job = _job(folder, environment)
        stack.callback(_end, job)
        uid = await _registered(state)
        driver = linux_driver(state, StateDir(state).instance_id(), SystemClock())
        knob = driver.knob(CPU_LIMIT, uid)
        limit = Path(knob.path)
        await until(lambda: _exists(limit), 30, "the job has its cgroup")
        original = limit.read_text()
        writer = Writer(bus, ledger, lease_seconds=120)
        for number in range(times):
            writer.throttles[uid] = 200 + 10 * number
            await writer.declare()
            await asyncio.sleep(0.07 * (number % 6))
            at = time.time()
            memory.look("agent", agent.pid)
            agent.kill()

            async def converged(milli: int = 200 + 10 * number, at: float = at) -> bool:
                return driver.parse(knob, driver.read(knob)) == milli and await _alive_since(bus, at)

            await until(converged, 60, "the quota is the wanted one again", 0.03)
            result.recovery_seconds.append(time.time() - at)
        status = await agent.stop()
        result.promise("its last stop was orderly", status == 0)
        result.promise("the quota is what it was before the first throttle", limit.read_text() == original)
        result.promise("the job outlived twenty agents", job.poll() is None)
        result.findings = Findings(offered=times, acked=times)
    left = [path for tree in hierarchy.trees() for path in tree.glob(f"slackwater-{StateDir(state).instance_id()}*")]
    result.promise("no cgroup of ours is left", await _gone(left))
    return _judged(result, memory, times, strictness)


async def _exists(path: Path) -> bool:
    return path.exists()


def _job(folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    line = [*slackwater(), "exec", "--tier", "batch", "--workload", "job", "--", "sleep", "1000"]
    everything = {**os.environ, **environment, "PYTHONPATH": python_path()}
    return subprocess.Popen(line, env=everything, cwd=REPOSITORY, stdout=subprocess.DEVNULL)


def _end(job: subprocess.Popen[bytes]) -> None:
    job.terminate()
    try:
        job.wait(10)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


async def _registered(state: Path) -> str:
    async def seen() -> bool:
        return bool(list((state / "agent" / "pods").glob("*.json")))

    await until(seen, 30, "the job is registered")
    return next((state / "agent" / "pods").glob("*.json")).stem


async def _gone(directories: list[Path]) -> bool:
    for _ in range(100):
        if not any(directory.exists() for directory in directories):
            return True
        await asyncio.sleep(0.05)
    return False
