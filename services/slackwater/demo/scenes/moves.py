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
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from slackwater.demo.machine.kernel import Kernel
from slackwater.demo.machine.local_agents import LocalAgent, running
from slackwater.demo.machine.workloads import program
from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, TurnFigure
from slackwater.demo.stage import Stage, beside, holds_within, require
from slackwater.demo.verdict import BrokenPromise
from slackwater.model.errors import Unavailable
from slackwater.model.workload_labels import digest_of, offered_label

WORKLOAD, POOL, NODES = "shopfront", "moves", ("node-a", "node-b")
MOVED, UNSCHEDULABLE, HEADROOM = "moved", "Unschedulable", "headroom"
"""The outcome of a move; the reason of a job without room, and the filter that other work of the machine causes."""
ASK_SECONDS, ANSWER_SECONDS = 0.02, 0.5
_KNOWN_SECONDS, _MOVE_SECONDS, _SETTLE_SECONDS = 60.0, 90.0, 1.0
_ARGS: Final = {"interval": "1s", "skipCheckExpectedReplicas": True, "workloadLimiter": {"duration": "0s"}}
"""The service has one replica, which the default refuses to move: it cannot be spared."""
_AUTONOMY: Final = ("autonomies", POOL, {"mode": "evict", "nodePool": POOL})


@dataclass(slots=True)
class ServiceClient:
    """Asks the service all the time, and keeps when it answered and as which cgroup instance; empty: no answer."""

    port: int
    answers: list[tuple[float, str]] = field(default_factory=list)

    def ask(self) -> str:
        """Returns the instance that answers; empty: none."""
        with suppress(OSError, IndexError), socket.create_connection(("127.0.0.1", self.port), ANSWER_SECONDS) as asked:
            asked.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return asked.recv(4096).decode().split("\r\n\r\n", 1)[1].split()[0]
        return ""

    async def ask_on(self) -> None:
        """Ask until cancelled, from a thread: an answer waits for nothing else in this process."""
        while True:
            began = time.monotonic()
            self.answers.append((began, await asyncio.to_thread(self.ask)))
            await asyncio.sleep(ASK_SECONDS)


def longest_silence(answers: list[tuple[float, str]]) -> float | None:
    """Returns the longest time between two answers that requests without one lie between; None: there is none."""
    answered = [place for place, (_, instance) in enumerate(answers) if instance]
    silences = [answers[later][0] - answers[place][0] for place, later in pairwise(answered) if later > place + 1]
    return max(silences, default=None)


def mixed_answers(answers: list[tuple[float, str]], old: str, new: str) -> int:
    """Returns how many answers came from the old instance after the first one of the new."""
    names = [instance for _, instance in answers]
    return names[names.index(new) :].count(old) if new in names else 0


@dataclass(frozen=True, slots=True)
class MoveTurn:
    """One move: the last status of its job, and what a client saw. `mixed` counts answers of the old pod after the
    first one of the new pod; `answers_from` is the node whose pod answers after it."""

    from_node: str
    to_node: str
    status: Mapping[str, Any]
    ended_seconds: float | None
    silent_seconds: float | None
    failed: int
    mixed: int
    answers_from: str

    @property
    def is_moved(self) -> bool:
        return bool(self.status.get("outcome") == MOVED)

    @property
    def has_no_room(self) -> bool:
        """Whether other programs of the machine leave no memory, so that the service rightly stays."""
        return self.status.get("reason") == UNSCHEDULABLE and HEADROOM in self.status.get("message", "")


@dataclass(slots=True)
class ServiceMoves:
    """Moves the service there and back. `places` are the node of its pod and the other one."""

    stage: Stage
    client: ServiceClient
    places: list[LocalAgent]
    pods: list[str] = field(default_factory=list)
    """The pod of each move: the platform shows an old one until its node reports again."""

    async def run_turn(self, _variant: str) -> MoveTurn:
        """Move the service to the other node."""
        old, new = self.places
        name = f"{WORKLOAD}-to-{new.node}-{time.monotonic_ns() // 1_000_000}"
        spec = {"podRef": {"uid": self.pods[-1]}, "targetNode": new.node, "reason": f"{old.node} is to be repaired"}
        self.client.answers = []
        async with beside(self.client.ask_on()):
            await asyncio.sleep(_SETTLE_SECONDS)
            began = time.monotonic()
            await self.stage.api.put("podmigrationjobs", name, spec)
            status = await self._followed(name)
            ended = round(time.monotonic() - began, 2) if status.get("step") == "ended" else None
            await asyncio.sleep(_SETTLE_SECONDS)
        instances = {agent.instance: agent.node for agent in self.places}
        turn = MoveTurn(
            from_node=old.node,
            to_node=new.node,
            status=status,
            ended_seconds=ended,
            silent_seconds=longest_silence(self.client.answers),
            failed=sum(not instance for _, instance in self.client.answers),
            mixed=mixed_answers(self.client.answers, old.instance, new.instance),
            answers_from=instances.get(await asyncio.to_thread(self.client.ask), ""),
        )
        if turn.is_moved:
            self.places.reverse()
            await self.find_pod()
        return turn

    async def _followed(self, name: str) -> dict[str, Any]:
        """Waits for the end of a job; returns its last status."""
        status: dict[str, Any] = {}

        async def is_over() -> bool:
            nonlocal status
            status = (await self.stage.api.document("podmigrationjobs", name) or {}).get("status") or {}
            self.stage.narrator.doing(f"moves, {name}: {status.get('step', 'waiting')}")
            return bool(status.get("step") == "ended")

        await holds_within(is_over, _MOVE_SECONDS)
        return status

    async def find_pod(self) -> None:
        """Waits until the node of the service reports a pod of it that is new."""
        agent = self.places[0]

        async def is_there() -> bool:
            pods = [pod for pod in await self.stage.api.items("/v1/pods") if pod["uid"] not in self.pods]
            self.pods += [pod["uid"] for pod in pods if (pod["node"], pod["workload"]) == (agent.node, WORKLOAD)]
            return len(self.pods) > known

        known = len(self.pods)
        if not await holds_within(is_there, _KNOWN_SECONDS):
            words = agent.last_words() or "nothing"
            raise Unavailable(f"{agent.node} did not report {WORKLOAD}; its agent said last: {words}")


def workload_file(folder: Path, port: int) -> Path:
    """Writes the workload file that both agents read."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "command": program("service", workers=1, rounds=1, port=port, owner=os.getpid()),
        "environment": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        "tier": "prod",
        "cpu": "100m",
        "memory": "64Mi",
        "movable": True,
        "graceSeconds": 5,
        "ready": {"address": f"127.0.0.1:{port}", "withinSeconds": 20},
    }
    metadata = {"name": WORKLOAD, "namespace": "default"}
    document = {"apiVersion": "slackwater.io/v1alpha1", "kind": "Workload", "metadata": metadata, "spec": spec}
    file = folder / f"{WORKLOAD}.yaml"
    file.write_text(json.dumps(document, indent=1))  # JSON is YAML
    return file


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[MoveTurn]]:
    """Starts two agents and the service on the first; nothing of them is left afterwards."""
    folder, nats_url = stage.workloads.state_dir / "moves", stage.api.endpoint.nats_url
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = workload_file(folder / "workloads", port)
    label, digest = offered_label(WORKLOAD), digest_of(file.read_bytes())
    agents = [LocalAgent(node, folder / node, nats_url, POOL, file.parent) for node in NODES]

    async def is_offered() -> bool:
        nodes = await stage.api.nodes()
        return all(nodes.get(node, {}).get("labels", {}).get(label) == digest for node in NODES)

    async with running(agents):
        moves = ServiceMoves(stage, ServiceClient(port), list(agents))
        await stage.workloads.from_file(file, agents[0].state_dir)
        await moves.find_pod()
        await require(is_offered, _KNOWN_SECONDS, f"not both agents offered {WORKLOAD}")
        yield moves.run_turn

    async def have_left() -> bool:
        return not await stage.api.live() & set(NODES)

    await holds_within(have_left, _KNOWN_SECONDS)  # the next scene, or run, must not count them
    if left := [leftover for agent in agents for leftover in Kernel.of(agent.state_dir).remains()]:
        raise BrokenPromise(f"left behind by the two agents: {', '.join(left)}")


MOVES: Final[DemoScene[MoveTurn]] = DemoScene(
    name="moves",
    plan="a PodMigrationJob moves an HTTP service from one local agent to another, and back; downtime is measured",
    title=f"moves: the HTTP service {WORKLOAD} moves between two agents of this machine",
    variants=(SceneVariant(MOVED, "moved", documents=(("arbitrationargs", "default", _ARGS), _AUTONOMY)),),
    compared=("", MOVED),
    columns=(
        TurnFigure("from", "from", lambda turn: turn.from_node),
        TurnFigure("to", "to", lambda turn: turn.to_node),
        TurnFigure("outcome", "outcome", lambda turn: turn.status.get("outcome", "not ended")),
        TurnFigure("ended_seconds", "took", lambda turn: turn.ended_seconds, "s", 1, "less"),
        TurnFigure("downtime_seconds", "downtime", lambda turn: turn.status.get("downtimeSeconds"), "s", 2, "less"),
        TurnFigure("silent_seconds", "no answer to a client", lambda turn: turn.silent_seconds, "s", 2, "less"),
        TurnFigure("failed", "failed requests", lambda turn: turn.failed),
        TurnFigure("answers_from", "answers from", lambda turn: turn.answers_from or "nothing"),
    ),
    promises=(
        Promise(
            "a move ends with the service on the other node", lambda turn: turn.is_moved or turn.has_no_room,
            seen=lambda turn: f"{turn.status.get('outcome', 'not ended')}: {turn.status.get('message', '')}",
        ),
        Promise(
            "after a move the new pod answers", lambda turn: not turn.is_moved or turn.answers_from == turn.to_node,
            seen=lambda turn: f"{turn.answers_from or 'nothing'} answers",
        ),
        Promise("a move states its downtime", lambda turn: not turn.is_moved or "downtimeSeconds" in turn.status),
        Promise("the old pod never answers beside the new one", lambda turn: not turn.mixed),
    ),
    note=lambda turn: f"other programs leave too little memory: {turn.status['message']}" if turn.has_no_room else "",
    opened=opened,
    setup_seconds=5.0,
    round_seconds=6.0,
    rounds=2,
    is_optional=True,
)  # fmt: skip
