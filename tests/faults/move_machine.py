"""A machine whose pods are files in a folder: they outlive the agent, and begin by its launcher. Effects are logged.

`python -m tests.faults.move_machine --nats URL --folder DIR --node NAME` runs the product's agent on it, with its
journal, its ledgers and its documents on disk, and with the crash points of FAULTS_HALTS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.halts import VARIABLE, Halts

from slackwater.agent.adapters.intents_file import JsonIntents
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.adapters.starts_file import JsonStarts
from slackwater.agent.domain.admission import Command
from slackwater.agent.domain.ledger import EvictionRecord
from slackwater.agent.domain.starts import StartRecord
from slackwater.agent.domain.workload_template import WorkloadTemplate
from slackwater.agent.edge.late_bus import LateBus
from slackwater.agent.node_agent import AgentService
from slackwater.agent.ports import RawSample
from slackwater.agent.settings import AgentSettings
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.bus.port import Bus
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier
from slackwater.model.time import SystemClock
from slackwater.model.workload_labels import TEMPLATE_LABEL, digest_of
from slackwater.runtime.platform import Platform

BOTH, FAILS, HERE = "both", "fails", "here"
"""Workloads: every node has the file of the first two, and starts of FAILS fail on TARGET; only SOURCE has HERE."""
PLAIN = "plain"
"""Pods without a workload file: no move starts them."""
SOURCE, TARGET = "node-a", "node-b"
POOL = "moves"
GUARDED, SLOW, UNWRITTEN = "guarded", "slow", "unwritten"
"""Parts of uids. The first kind is protected on its machine; the second one ends SLOW_SECONDS after SIGTERM; the disk
is full when an eviction of the third is to be stored."""
SLOW_SECONDS = 1.5
CPU_MILLI, MEMORY_BYTES = 100, 64 << 20


def begin_pod(folder: Path, uid: str, workload: str, namespace: str, labels: Mapping[str, str]) -> None:
    """Let a pod run on the machine of this folder; by another name first, so that none is seen half written."""
    pods = folder / "pods"
    pods.mkdir(parents=True, exist_ok=True)
    line = {"uid": uid, "workload": workload, "namespace": namespace, "labels": dict(labels), "at": time.time()}
    fresh = pods / f".{uid}"
    fresh.write_text(json.dumps(line))
    fresh.rename(pods / f"{uid}.json")


def living(folder: Path) -> list[dict[str, Any]]:
    """The pods that run on the machine of this folder."""
    found = []
    for path in sorted((folder / "pods").glob("*.json")):
        with suppress(FileNotFoundError):
            line = json.loads(path.read_text())
            if line.get("ends", time.time() + 1) > time.time():
                found.append(line)
    return found


def effects(log: Path) -> Iterator[dict[str, Any]]:
    """What was begun and signalled on the machines of this log, in order."""
    if log.exists():
        yield from (json.loads(line) for line in log.read_text().splitlines() if line)


class FolderMachine(SimulatedDriver):
    """Its pods are in the folder, so that they outlive every agent."""

    def __init__(self, node: str, folder: Path, log: Path, halts: Halts) -> None:
        super().__init__(node, 1, SystemClock())
        self._folder = folder
        self._halts = halts
        self._is_sampling = False
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def open(self) -> None:
        super().open()
        for uid in list(self._pods):
            super().terminate(uid, signal.SIGKILL)
        self._read()

    def pods(self) -> tuple[Pod, ...]:
        if not self._is_sampling:
            self._read()
        return super().pods()

    def sample(self) -> RawSample:
        """Of the pods that ran when it began: another process begins and ends pods meanwhile."""
        self._read()
        self._is_sampling = True
        try:
            return super().sample()
        finally:
            self._is_sampling = False

    def alive(self, pod_uid: str) -> bool:
        return pod_uid in {line["uid"] for line in living(self._folder)}

    def protected(self, pod_uid: str) -> str | None:
        return "this pod is guarded" if GUARDED in pod_uid else None

    def terminate(self, pod_uid: str, signal: int) -> None:
        lives = self.alive(pod_uid)
        if lives:
            self._halts.at("agent signals before")
        self.note({"what": "signal", "pod": pod_uid, "signal": int(signal), "lived": lives})
        path = self._folder / "pods" / f"{pod_uid}.json"
        if SLOW in pod_uid and signal == SIGTERM and lives:
            line = {"ends": time.time() + SLOW_SECONDS, **json.loads(path.read_text())}
            fresh = path.with_name(f".{pod_uid}")
            fresh.write_text(json.dumps(line))
            fresh.rename(path)
        else:
            path.unlink(missing_ok=True)
        if lives:
            self._halts.at("agent signals after")

    def note(self, line: Mapping[str, Any]) -> None:
        os.write(self._log, json.dumps({"node": self.node, **line, "at": time.time()}).encode() + b"\n")

    def _read(self) -> None:
        lines = {str(line["uid"]): line for line in living(self._folder)}
        for uid in self._pods.keys() - lines.keys():
            super().terminate(uid, signal.SIGKILL)
        for uid in lines.keys() - self._pods.keys():
            self._pods[uid] = _pod(lines[uid])
            for spec in self.knobs:
                self._texts[self._knob(spec, uid)] = spec.plain_text(spec.default)


SIGTERM = signal.SIGTERM


def _pod(line: Mapping[str, Any]) -> Pod:
    return Pod(
        uid=line["uid"],
        name=line["uid"],
        namespace=line["namespace"],
        workload=line["workload"],
        tier=Tier.PROD,
        qos=QoSClass.LS,
        priority=DEFAULT_PRIORITY[Tier.PROD],
        request=Resources(CPU_MILLI, MEMORY_BYTES),
        started_at=datetime.fromtimestamp(line["at"], UTC),
        labels=line["labels"],
    )


@dataclass(frozen=True)
class FolderLauncher:
    """See slackwater.agent.ports.Launcher: a launched pod is a file."""

    machine: FolderMachine
    folder: Path
    halts: Halts

    def templates(self) -> Mapping[str, WorkloadTemplate]:
        names = (BOTH, FAILS, HERE) if self.machine.node == SOURCE else (BOTH, FAILS)
        return {name: _template(name) for name in names}

    def launch(self, template: WorkloadTemplate, uid: str, labels: Mapping[str, str], within_seconds: float) -> None:
        if template.name == FAILS and self.machine.node == TARGET:
            raise Unavailable("no process can be started here", code="not_launched")
        self.halts.at("agent launches before")
        self.machine.note({"what": "begin", "pod": uid, "workload": template.name, "labels": dict(labels)})
        begin_pod(self.folder, uid, template.name, NAMESPACE, {**labels, TEMPLATE_LABEL: template.digest})
        self.halts.at("agent launches after")

    async def is_ready(self, template: WorkloadTemplate) -> bool:
        return True

    def why_ended(self, uid: str) -> str:
        return "the pod is not there"


NAMESPACE = "shop"


def digest(workload: str) -> str:
    """Of the file of a workload, the same on every node."""
    return digest_of(workload.encode())


def _template(name: str) -> WorkloadTemplate:
    command = Command("prod", f"{CPU_MILLI}m", "64Mi", name, namespace=NAMESPACE, arguments=("serve",))
    return WorkloadTemplate(name, digest(name), command, grace_seconds=1.0, movable=True)


@dataclass(frozen=True)
class HaltingLedger:
    """The ledger of evictions on disk, with a point before and after each new state of a record."""

    ledger: JsonLedger
    halts: Halts

    def load(self) -> dict[str, EvictionRecord]:
        return self.ledger.load()

    def save(self, records: Mapping[str, EvictionRecord], *, sync: bool = True) -> None:
        before = {id_: _eviction_state(record) for id_, record in self.ledger.load().items()}
        states = [_eviction_state(record) for id_, record in records.items()
                  if before.get(id_) != _eviction_state(record)]  # fmt: skip
        if any(UNWRITTEN in record.pod_uid for record in records.values()):
            raise Unavailable("no space left on this device", code="ledger_not_written")
        for state in states:
            self.halts.at(f"agent stores eviction {state} before")
        self.ledger.save(records, sync=sync)
        for state in states:
            self.halts.at(f"agent stores eviction {state} after")


def _eviction_state(record: EvictionRecord) -> str:
    return "published" if record.published else "begun" if record.outcome is None else "answered"


@dataclass(frozen=True)
class HaltingStarts:
    """The same of starts."""

    ledger: JsonStarts
    halts: Halts

    def load(self) -> dict[str, StartRecord]:
        return self.ledger.load()

    def save(self, records: Mapping[str, StartRecord]) -> None:
        before = {id_: record.state for id_, record in self.ledger.load().items()}
        states = [record.state for id_, record in records.items() if before.get(id_) != record.state]
        for state in states:
            self.halts.at(f"agent stores start {state} before")
        self.ledger.save(records)
        for state in states:
            self.halts.at(f"agent stores start {state} after")


def _with_points(bus: Bus, halts: Halts) -> None:
    """Stop before and after what is answered to migration."""
    publish = bus.publish

    async def halting(event: Event[Any], *rest: Any, **named: Any) -> Any:
        point = _answer_point(event.data)
        if point:
            halts.at(f"{point} before")
        answer = await publish(event, *rest, **named)
        if point:
            halts.at(f"{point} after")
        return answer

    bus.publish = halting  # type: ignore[method-assign] # the point


def _answer_point(data: Any) -> str:
    if isinstance(data, EvictionCompleted):
        return "agent publishes eviction.completed"
    is_of_starts = isinstance(data, IntentObserved) and bool(data.starts)
    return "agent publishes intent.observed" if is_of_starts else ""


async def work(url: str, folder: Path, node: str) -> None:
    """Run the product's agent until a signal."""
    halts = Halts(Path(os.environ[VARIABLE]))
    settings = AgentSettings(node=node, pool=POOL, sample_seconds=0.1, report_seconds=0.3)
    bus = LateBus()
    _with_points(bus, halts)

    def no_database(service: str) -> None:
        raise Misconfigured(f"{service} asked for a database, but an agent has none")

    platform = Platform(bus, SystemClock(), no_database, folder)  # type: ignore[arg-type] # never returns
    machine = FolderMachine(node, folder, folder.parent / "effects.jsonl", halts)
    service = AgentService(
        settings,
        platform,
        machine,
        LinesJournal(folder / "journal"),
        HaltingLedger(JsonLedger(folder / "evictions.json"), halts),
        intents=JsonIntents(folder / "intents.json"),
        launcher=FolderLauncher(machine, folder, halts),
        starts=HaltingStarts(JsonStarts(folder / "starts.json"), halts),
    )
    async with bus.connecting(lambda: connect_bus(url, name=node, declares=False, wait_seconds=5)):
        running = asyncio.create_task(service.run(lambda: None))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()


def machine_command(url: str, folder: Path, node: str) -> Sequence[str]:
    """The command line of such an agent."""
    return [sys.executable, "-m", "tests.faults.move_machine", "--nats", url, "--folder", str(folder), "--node", node]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nats", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--node", required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(work(options.nats, options.folder, options.node))


if __name__ == "__main__":
    main()
