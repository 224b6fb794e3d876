"""A workload is moved between two agents of this machine: ended on one node, started by request on the other."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from agent_machine import Machine, soon, until

from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved, ObservedStart
from slackwater.events.node_described import NodeDescribed
from slackwater.model.start_states import StartState
from slackwater.model.workload_labels import START_LABEL, digest_of

pytestmark = pytest.mark.root
HERE, THERE = "here", "there"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def described(folder: Path, port: int) -> Path:
    """A web server that says on which node it runs, by a variable that its file sets."""
    folder.mkdir()
    path = folder / "api.yaml"
    document = {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "api"},
        "spec": {
            "command": ["python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)],
            "workingDirectory": str(folder),
            "tier": "batch",
            "cpu": "100m",
            "memory": "128Mi",
            "movable": True,
            "graceSeconds": 5,
            "ready": {"address": f"127.0.0.1:{port}", "withinSeconds": 60},
        },
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def answered(port: int) -> bool:
    def ask() -> bool:
        with urlopen(f"http://127.0.0.1:{port}/api.yaml", timeout=60) as answer:
            return bool(answer.status == 200)

    return await asyncio.to_thread(ask)


def eviction(uid: str) -> dict[str, object]:
    return {
        "id": f"evict-{uid}",
        "pod_uid": uid,
        "grace_seconds": 5.0,
        "deadline": soon(),
        "reason": "move",
        "decision_id": "d1",
    }


def starts_of(machine: Machine) -> list[ObservedStart]:
    return [one for event in machine.published(IntentObserved) for one in event.data.starts]


def environments(state_dir: Path, uid: str) -> list[bytes]:
    """Those of the process that the agent has started, and of the workload below it."""
    pid = json.loads((state_dir / "agent" / "pods" / f"{uid}.json").read_text())["supervisor"]["pid"]
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{one}/environ").read_bytes() for one in (pid, child)]


async def test_a_workload_that_allows_it_is_moved_to_another_agent(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_NATS_PASSWORD", "hunter2")
    port = free_port()
    file = described(tmp_path / "workloads", port)
    other = Machine(tmp_path / "other", machine.hierarchy, bus=machine.bus)
    other.state_dir.mkdir()
    process = machine.execute_file(file)
    async with (
        machine.agent(node=HERE) as first,
        other.agent(node=THERE, workloads_dir=file.parent, sample_seconds=0.1) as second,
    ):
        [old] = await machine.pod(first)
        await until(lambda: old.workload == "api")
        labels = [one.data.facts.labels for one in other.published(NodeDescribed) if one.data.facts.name == THERE]
        digest = digest_of(file.read_bytes())
        assert labels[-1]["workload.slackwater.io/api"] == digest
        await machine.declare(writer="migration", evictions=[eviction(old.uid)])
        await until(lambda: machine.published(EvictionCompleted))
        await until(lambda: process.poll() is not None)
        start = {
            "id": "job-1",
            "workload": "api",
            "digest": digest,
            "deadline": soon(),
            "reason": "move",
            "decision_id": "d2",
        }
        await other.declare(node=THERE, writer="migration", starts=[start])
        ready = await until(lambda: [one for one in starts_of(other) if one.state is StartState.READY])
        assert {one.state for one in starts_of(other)} == {StartState.STARTING, StartState.READY}
        assert await answered(port)
        [new] = await other.pod(second)
        assert (new.uid, new.labels[START_LABEL]) == (ready[-1].pod_uid, "job-1")
        assert [b"SLACKWATER" in one for one in environments(other.state_dir, new.uid)] == [False, False]
    try:
        assert await answered(port), "the pod outlives the agent that started it"
        async with other.agent(node=THERE, workloads_dir=file.parent) as again:
            [kept] = await other.pod(again)
            assert kept.uid == new.uid, "a restarted agent starts no second pod"
    finally:
        async with other.agent(node=THERE) as last:
            await other.declare(node=THERE, writer="migration", evictions=[eviction(new.uid)])
            await until(lambda: not last.driver.pods())
    await until(lambda: not other.directories())
