"""The scene moves: a real HTTP service is moved between two agents of this machine, and back.

One workload file, two agents with a node name and a cgroup root each. The service starts on node-a by
`slackwater exec --from FILE`, a PodMigrationJob is applied, and node-b starts it from the file when node-a has
confirmed that the old pod has ended. A client asks all the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from slackwater.demo.kernel import Kernel
from slackwater.demo.scenes import moves_result
from slackwater.demo.scenes.local_agents import LocalAgent, running_agents
from slackwater.demo.scenes.moves_result import MovesScene, MoveStep, MoveTurn
from slackwater.demo.scenes.scene import DemoScene, Stage
from slackwater.model.workload_labels import digest_of, offered_label
from slackwater.runtime.state import VARIABLE

WORKLOAD, POOL, NODES = "shopfront", "moves", ("node-a", "node-b")
ASK_SECONDS, ANSWER_SECONDS = 0.02, 0.5
_KNOWN_SECONDS, _START_SECONDS, _MOVE_SECONDS, _POLL_SECONDS = 20.0, 20.0, 60.0, 0.05
_SETTLE_SECONDS: Final = 1.0
_ARGS: Final = {"interval": "1s", "skipCheckExpectedReplicas": True, "workloadLimiter": {"duration": "0s"}}
"""The service has one replica, which the default refuses to move: it cannot be spared."""
_STEPS: Final = {
    "admitted": "admitted: no limit holds it; asks the pool's Autonomy for leave to evict",
    "reserving": "reserving: looks for a node with room and the same workload file",
    "evicting": "evicting: room is reserved on {node}; {old} is asked to end the pod",
    "replacing": "replacing: {old} has confirmed that the pod ended; {node} is asked to start it",
    "ended": "ended: {phase}, {outcome}",
}


@dataclass(slots=True)
class ServiceClient:
    """Asks the service all the time, and keeps when it answered and as which cgroup instance."""

    port: int
    answers: list[tuple[float, str]] = field(default_factory=list)
    """When, and the instance; empty: no answer."""

    async def ask(self) -> str:
        """Returns the instance that answers; empty: none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._request()
        except (OSError, TimeoutError, IndexError):
            return ""

    async def _request(self) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            return (await reader.read()).decode().split("\r\n\r\n", 1)[1].split()[0]
        finally:
            writer.close()

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Ask during the block."""

        is_over = asyncio.Event()

        async def keep_asking() -> None:
            while not is_over.is_set():
                began = time.monotonic()
                self.answers.append((began, await self.ask()))
                await asyncio.sleep(max(0.0, began + ASK_SECONDS - time.monotonic()))

        async with asyncio.TaskGroup() as group:
            group.create_task(keep_asking())
            try:
                yield
            finally:
                is_over.set()


def longest_silence(answers: list[tuple[float, str]]) -> float | None:
    """Returns the longest time between two answers that requests without one lie between; None: there is none."""
    longest, last, missed = None, None, False
    for at, instance in answers:
        if not instance:
            missed = True
            continue
        if missed and last is not None:
            longest = max(longest or 0.0, at - last)
        last, missed = at, False
    return longest


def mixed_answers(answers: list[tuple[float, str]], old: str, new: str) -> int:
    """Returns how many answers came from the old instance after the first one of the new."""
    names = [instance for _, instance in answers]
    return names[names.index(new) :].count(old) if new in names else 0


@dataclass(slots=True)
class ServiceMoves:
    """Runs the moves."""

    stage: Stage
    port: int
    digest: str = ""
    known: set[str] = field(default_factory=set)
    """Pods of earlier moves and runs: the platform shows them until their node reports again."""
    turns: list[MoveTurn] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.stage.workloads.state_dir / "moves"

    @property
    def workloads_dir(self) -> Path:
        return self.folder / "workloads"

    async def perform(self, turns: int) -> MovesScene:
        """Move it so many times, there and back."""
        api = self.stage.api
        file = self._describe()
        before = await api.document("arbitrationargs", "default")
        autonomy = await api.document("autonomies", POOL)
        try:
            await api.put("arbitrationargs", "default", _ARGS)
            await api.put("autonomies", POOL, {"mode": "evict", "nodePool": POOL})
            nats_url = api.endpoint.nats_url
            async with running_agents(NODES, self.folder, nats_url, POOL, self.workloads_dir) as agents:
                found = await self._moves(file, agents, turns)
            left = tuple(one for agent in agents for one in Kernel.of(agent.state_dir).remains())
            return found.model_copy(update={"left": left})
        finally:
            await api.put_back("autonomies", POOL, autonomy)
            await api.put_back("arbitrationargs", "default", before)

    def _describe(self) -> Path:
        """Write the workload file that both agents read."""
        self.workloads_dir.mkdir(parents=True, exist_ok=True)
        module = ("-m", "slackwater.demo.scenes.moved_service")
        spec = {
            "command": [sys.executable, *module, "--port", str(self.port), "--owner", str(os.getpid())],
            "environment": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            "tier": "prod",
            "cpu": "100m",
            "memory": "64Mi",
            "movable": True,
            "graceSeconds": 5,
            "ready": {"address": f"127.0.0.1:{self.port}", "withinSeconds": 20},
        }
        metadata = {"name": WORKLOAD, "namespace": "default"}
        document = {"apiVersion": "slackwater.io/v1alpha1", "kind": "Workload", "metadata": metadata, "spec": spec}
        file = self.workloads_dir / f"{WORKLOAD}.yaml"
        file.write_text(json.dumps(document, indent=1))  # JSON is YAML
        return file

    async def _moves(self, file: Path, agents: list[LocalAgent], turns: int) -> MovesScene:
        self._write(f"two agents of this machine: {' and '.join(NODES)}, pool {POOL}, one file {file.name} for both")
        first, client = agents[0], ServiceClient(self.port)
        self.digest = digest_of(file.read_bytes())
        self.known = {pod["uid"] for pod in await self.stage.api.pods() if pod["workload"] == WORKLOAD}
        await self.stage.workloads.from_file(file, first.state_dir)
        pod = await self._seen(first.node, _START_SECONDS)
        if pod is None or not all([await self._offers(agent) for agent in agents]):
            words = "; ".join(f"{agent.node} said last: {said}" for agent in agents if (said := agent.last_words()))
            return MovesScene(
                left_out=f"the agents were not known within {_KNOWN_SECONDS:g} s{': ' if words else ''}{words}"
            )
        self._write(f"{WORKLOAD} runs on {first.node} and answers on 127.0.0.1:{self.port}; file digest {self.digest}")
        places = list(agents)
        for _ in range(turns):
            turn = await self._move(pod, places[0], places[1], client)
            self.turns.append(turn)
            if turn.outcome != moves_result.MOVED:
                break
            places.reverse()
            moved = await self._seen(places[0].node, _KNOWN_SECONDS)
            if moved is None:
                break
            pod = moved
        why = await self._why(self.turns[-1].job)
        return MovesScene(workload=WORKLOAD, digest=self.digest, turns=tuple(self.turns), why=tuple(why))

    async def _move(self, pod: str, old: LocalAgent, new: LocalAgent, client: ServiceClient) -> MoveTurn:
        name = f"{WORKLOAD}-to-{new.node}-{datetime.now(UTC):%H%M%S}"
        client.answers.clear()
        async with client.asking():
            await asyncio.sleep(_SETTLE_SECONDS)
            self._write(f"apply PodMigrationJob {name}: pod {pod} from {old.node}")
            spec = {"podRef": {"uid": pod}, "targetNode": new.node, "reason": f"{old.node} is to be repaired"}
            await self.stage.api.put("podmigrationjobs", name, spec)
            status, steps = await self._follow(name, old.node)
            await asyncio.sleep(_SETTLE_SECONDS)
        answers = list(client.answers)
        instances = {agent.instance: agent.node for agent in (old, new)}
        turn = MoveTurn(
            variant=moves_result.MOVED,
            job=name,
            from_node=old.node,
            to_node=new.node,
            phase=status.get("phase", ""),
            outcome=status.get("outcome", ""),
            reason=status.get("reason", ""),
            message=status.get("message", ""),
            steps=tuple(steps),
            downtime_seconds=status.get("downtimeSeconds"),
            silent_seconds=longest_silence(answers),
            requests=len(answers),
            failed=sum(not instance for _, instance in answers),
            mixed=mixed_answers(answers, old.instance, new.instance),
            answers_from=instances.get(await client.ask(), ""),
        )
        self._write_outcome(turn)
        return turn

    async def _follow(self, name: str, old: str) -> tuple[dict[str, Any], list[MoveStep]]:
        """Prints each step when it is seen first; returns the last status."""
        began, steps, status = time.monotonic(), list[MoveStep](), dict[str, Any]()
        while time.monotonic() - began < _MOVE_SECONDS and status.get("step") != "ended":
            document = await self.stage.api.document("podmigrationjobs", name) or {}
            status = document.get("status") or {}
            step = status.get("step", "waiting")
            if step not in {each.step for each in steps}:
                steps.append(MoveStep(step=step, seconds=round(time.monotonic() - began, 2)))
                if step in _STEPS:
                    self._write("  " + _STEPS[step].format(old=old, **{"node": "?", "outcome": "", **status}))
            if self.stage.narrator.console.is_terminal:
                self.stage.narrator.now(f"moves, {name}: {step}", None, {})
            await asyncio.sleep(_POLL_SECONDS)
        return status, steps

    def _write_outcome(self, turn: MoveTurn) -> None:
        if turn.message:
            self._write(f"  {turn.message}")
        if turn.downtime_seconds is not None:
            self._write(f"  downtime {turn.downtime_seconds:.2f} s by the agents' answers")
        silent = (
            "was never without an answer"
            if turn.silent_seconds is None
            else f"no answer for {turn.silent_seconds:.2f} s"
        )
        self._write(f"  a client: {silent}, {turn.failed} of {turn.requests} requests failed")
        self._write(f"  the service answers from {turn.answers_from or 'nowhere'}")

    async def _seen(self, node: str, seconds: float) -> str | None:
        """Waits until a node reports a pod of the service that is new; returns its uid."""
        for _ in range(int(seconds / _POLL_SECONDS / 4)):
            for pod in await self.stage.api.pods():
                if (pod["node"], pod["workload"]) == (node, WORKLOAD) and pod["uid"] not in self.known:
                    self.known.add(pod["uid"])
                    return str(pod["uid"])
            await asyncio.sleep(4 * _POLL_SECONDS)
        return None

    async def _offers(self, agent: LocalAgent) -> bool:
        """Waits until a node shows the digest of the workload file as its label."""
        label = offered_label(WORKLOAD)
        for _ in range(int(_KNOWN_SECONDS / _POLL_SECONDS / 4)):
            nodes = {node["name"]: node for node in await self.stage.api.nodes()}
            facts = (nodes.get(agent.node) or {}).get("facts") or {}
            if facts.get("labels", {}).get(label) == self.digest:
                return True
            await asyncio.sleep(4 * _POLL_SECONDS)
        return False

    async def _why(self, job: str) -> list[str]:
        """Prints what `slackwater why` says of a move; returns its lines."""
        state = str(self.stage.workloads.state_dir)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slackwater.cli", "why", f"migration/{job}"),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            env=os.environ | {VARIABLE: state},
        )
        out, _ = await process.communicate()
        lines = out.decode(errors="replace").rstrip().splitlines()
        self._write(f"slackwater why migration/{job}")
        for line in lines:
            self._write(f"  {line}")
        return lines

    def _write(self, text: str) -> None:
        self.stage.narrator.write_line(f"moves, {text}" if not text.startswith("  ") else f"    {text.strip()}")


def free_port() -> int:
    """Returns a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _perform(stage: Stage, turns: int) -> MovesScene:
    return await ServiceMoves(stage, free_port()).perform(turns)


MOVES = DemoScene(
    name="moves",
    plan="a PodMigrationJob moves an HTTP service from one local agent to another, and back; downtime is measured",
    turns=2,
    seconds=lambda turns: 15.0 + 15.0 * turns,
    result=MovesScene,
    perform=_perform,
    report=moves_result.report,
    picture=None,
    optional=True,
)
