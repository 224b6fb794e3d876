"""Growth of the stream DECISIONS: a simulated fleet below a low waterline, and what it means for 30 days.

`make bench ARGS="--only decisions_soak --minutes 17"` runs `slackwater up` with the simulated driver in a folder of its
own, records what is published to the stream, and reads its size. Bytes do not depend on the load of the machine. With a
waterline of 6 %, which prod's pressure crosses and leaves every 18 s, and a burst of 8 KiB per node (128 KiB by
default) the burst is used up within minutes. What is refilled per hour comes after most runs have ended, so the
projection takes the budget itself where less was seen.

Four parts behave differently and are projected apart: records under the budget of their node (its burst at once, then
bytes per hour), those of disconnected agents under the agent's own budget, messages of which the stream keeps the
newest per subject, and evictions, which no budget bounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.js import JetStreamContext
from tests.bench.soak import slope
from tests.bench.verdict import Target

from slackwater.agent.settings import AgentSettings
from slackwater.bus.admin.streams import load
from slackwater.ensurance.settings import EnsuranceSettings

STREAM = "DECISIONS"
PROMISED_DAYS = 30
FLEETS = (30, 300, 1000)
KEPT_PER_SUBJECT = frozenset({"prediction", "offer"})
DISCONNECTED = "disconnected"
_STORED_MESSAGE_BYTES = 22
"""What JetStream adds per message in its file, and 4 more with headers."""
SOAKED_BURST = 8192
_USED_UP = 0.75
"""Share of the burst from which it counts as used up: what is left holds no further record."""
_LOOK_SECONDS = 15.0
_MIB = 1 << 20


def stored_bytes(subject: str, headers: dict[str, str], body: int) -> int:
    """The size of a message as `max_bytes` counts it."""
    lines = len("NATS/1.0\r\n\r\n") + sum(len(f"{name}: {value}\r\n") for name, value in headers.items())
    return _STORED_MESSAGE_BYTES + len(subject) + 4 + lines + body


@dataclass(frozen=True, slots=True)
class Message:
    """One published message: seconds since the start, its part (event or kind of record), subject and stored size."""

    at: float
    part: str
    subject: str
    size: int

    @property
    def kept_per_subject(self) -> bool:
        """Whether its subject is used again, so that the stream keeps only the newest of it."""
        return self.part == "intent.observed" or self.part.split()[0] in KEPT_PER_SUBJECT

    @property
    def unbounded(self) -> bool:
        """Whether no budget bounds it."""
        return self.part.split()[0] in {"evict", "eviction.completed", "autonomy"}

    @property
    def disconnected(self) -> bool:
        """Whether a disconnected agent decided it."""
        return DISCONNECTED in self.part.split()

    @property
    def budgeted(self) -> bool:
        """Whether ensurance's budget of its node bounds it."""
        return not (self.kept_per_subject or self.unbounded or self.disconnected)


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget of records of one node."""

    burst: float
    bytes_per_hour: float

    def bytes_in(self, seconds: float) -> float:
        return self.burst + self.bytes_per_hour * seconds / 3600


_AGENT = AgentSettings()
OF_AGENTS = Budget(_AGENT.record_burst_bytes, _AGENT.record_bytes_per_hour)


@dataclass(frozen=True, slots=True)
class Projection:
    """Bytes of one node after the promised days, by part."""

    budgeted: float
    kept_per_subject: float
    unbounded: float

    @property
    def total(self) -> float:
        return self.budgeted + self.kept_per_subject + self.unbounded


def project(
    messages: Iterable[Message], *, nodes: int, since: float, until: float, budget: Budget, keep: int
) -> Projection:
    """What one node holds after the promised days if it goes on as between `since` and `until` (seconds).

    Budgeted records: the whole burst, then the budget per hour, or the rate that was seen where that is above it. Other
    messages: the newest `keep` of each subject that was seen, at their mean size.
    """
    hours, promised = (until - since) / 3600, 24.0 * PROMISED_DAYS
    budgeted = unbounded = 0.0
    sizes: dict[str, list[int]] = {}
    for message in messages:
        if message.kept_per_subject:
            sizes.setdefault(message.subject, []).append(message.size)
        elif message.at >= since and message.unbounded:
            unbounded += message.size
        elif message.at >= since and message.budgeted:
            budgeted += message.size
    newest = sum(keep * sum(of_subject) / len(of_subject) for of_subject in sizes.values())
    per_node_hour = 1 / (nodes * hours)
    rate = max(budget.bytes_per_hour, budgeted * per_node_hour)
    of_agents = OF_AGENTS.bytes_in(3600 * promised)
    return Projection(budget.burst + promised * rate + of_agents, newest / nodes, promised * unbounded * per_node_hour)


def budgeted_rate(messages: Iterable[Message], *, nodes: int, since: float, until: float) -> float:
    """Bytes of records under the budget, per node and hour, as seen between `since` and `until` (seconds)."""
    seen = sum(message.size for message in messages if message.at >= since and message.budgeted)
    return seen * 3600 / (nodes * (until - since))


def settled_at(messages: Sequence[Message], *, nodes: int, burst: float) -> float | None:
    """The moment by which the records of `nodes` nodes have used up their bursts; None if they never did."""
    spent, used_up = 0, nodes * burst * _USED_UP
    for message in messages:
        if message.budgeted:
            spent += message.size
            if spent >= used_up:
                return message.at
    return None


async def _connected(folder: Path) -> Any:
    async with asyncio.timeout(120):
        while True:
            for file in (folder / "nats").glob("*.ports"):
                urls = json.loads(file.read_text() or "{}").get("nats")
                if urls:
                    return await nats.connect(urls[0])
            await asyncio.sleep(0.5)


async def _stored(js: JetStreamContext) -> int:
    async with asyncio.timeout(120):
        while True:
            try:
                return int((await js.stream_info(STREAM)).state.bytes)
            except nats.js.errors.NotFoundError:
                await asyncio.sleep(1)


@dataclass
class Journal:
    """Every message published to the stream since `began`, and sizes of the stream by time."""

    began: float = field(default_factory=time.monotonic)
    messages: list[Message] = field(default_factory=list)
    sizes: list[tuple[float, int]] = field(default_factory=list)

    async def note(self, message: Any) -> None:
        part = ".".join(message.subject.split(".")[2:4])
        if part == "decision.recorded":
            record = json.loads(message.data)["record"]
            part = record["kind"] + " compact" * record.get("compact", False)
            part += f" {DISCONNECTED}" * (record.get("service") == "agent")
        size = stored_bytes(message.subject, message.headers or {}, len(message.data))
        self.messages.append(Message(time.monotonic() - self.began, part, message.subject, size))


async def _record(folder: Path, nodes: int, seconds: float, settings: dict[str, str]) -> Journal:
    command = [sys.executable, "-m", "slackwater.cli", "up", "--driver", "simulated", "--nodes", str(nodes)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--port", "0", "--seconds", str(int(seconds + 180))),
        env=os.environ | {"SLACKWATER_AGENT_LOAD": "tide"} | settings | {"SLACKWATER_STATE_DIR": str(folder)},
        stdout=subprocess.DEVNULL,
    )
    try:
        connection = await _connected(folder)
        js = connection.jetstream()
        await _stored(js)
        journal = Journal()
        for subject in load().streams[STREAM].subjects:
            await connection.subscribe(subject, cb=journal.note)
        while (at := time.monotonic() - journal.began) < seconds:
            journal.sizes.append((at, await _stored(js)))
            await asyncio.sleep(min(_LOOK_SECONDS, seconds - at))
        journal.sizes.append((time.monotonic() - journal.began, await _stored(js)))
        await connection.close()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    return journal


def measure(folder: Path, *, minutes: float, nodes: int = 30, waterline: float = 0.06) -> dict[str, Any]:
    """Measures the figure; see the module docstring."""
    defaults = EnsuranceSettings()
    budget = Budget(defaults.record_burst_bytes, defaults.record_bytes_per_hour)
    settings = {
        "SLACKWATER_ENSURANCE_WATERLINE": str(waterline),
        "SLACKWATER_ENSURANCE_QUOTA_AFTER_SECONDS": "0",
        "SLACKWATER_ENSURANCE_RECORD_BURST_BYTES": str(SOAKED_BURST),
    }
    journal = asyncio.run(_record(folder, nodes, 60 * minutes, settings))
    return report(journal, nodes, budget)


def report(journal: Journal, nodes: int, budget: Budget) -> dict[str, Any]:
    """The figure: growth as seen, and the projection with its targets. `budget` is the one by default."""
    messages, until = journal.messages, journal.sizes[-1][0]
    used_up = settled_at(messages, nodes=nodes, burst=SOAKED_BURST)
    since = until / 2 if used_up is None else min(used_up, until - 60)
    stream = load().streams[STREAM]
    keep = stream.max_messages_per_subject or 1
    found = project(messages, nodes=nodes, since=since, until=until, budget=budget, keep=keep)
    late = [(at / 60, size / _MIB) for at, size in journal.sizes if at >= since]
    growing = slope([at for at, _ in late], [size for _, size in late])[0]
    alone = sum(message.size for message in messages if message.disconnected) / nodes
    budgeted = budgeted_rate(messages, nodes=nodes, since=since, until=until)
    return {
        "nodes": nodes,
        "minutes": round(until / 60, 1),
        "bursts_used_up_after_minutes": None if used_up is None else round(used_up / 60, 1),
        "stored_mib": [round(journal.sizes[0][1] / _MIB, 2), round(journal.sizes[-1][1] / _MIB, 2)],
        "mib_per_minute": round(growing, 3),
        "bytes_per_node_hour": round(growing * _MIB * 60 / nodes),
        "budgeted_bytes_per_node_hour": round(budgeted),
        "bytes_of_a_disconnected_agent": round(alone),
        "bytes_of_a_node_in_30_days": {
            "budgeted": round(found.budgeted),
            "newest_per_subject": round(found.kept_per_subject),
            "unbounded": round(found.unbounded),
        },
        "gb_in_30_days": {str(number): round(number * found.total / 1e9, 3) for number in FLEETS},
        "max_bytes": stream.max_bytes,
        "parts": _parts(messages, nodes, since, until),
        "targets": (
            Target("records under the budget per node and hour", budgeted, budget.bytes_per_hour * 1.1, "B"),
            Target("records of a disconnected agent in this run", alone, OF_AGENTS.bytes_in(until) * 1.1, "B"),
            Target(
                "share of the stream held by 1,000 nodes after 30 days",
                1000 * found.total / (stream.max_bytes or 1),
                1.0,
            ),
        ),
    }


def _parts(messages: Sequence[Message], nodes: int, since: float, until: float) -> dict[str, dict[str, float]]:
    """Messages published after `since`, by part."""
    sizes: dict[str, list[int]] = {}
    for message in messages:
        if message.at >= since:
            sizes.setdefault(message.part, []).append(message.size)
    hours = nodes * (until - since) / 3600
    return {
        part: {
            "per_node_hour": round(len(of_part) / hours, 1),
            "bytes_each": round(sum(of_part) / len(of_part)),
            "bytes_per_node_hour": round(sum(of_part) / hours),
        }
        for part, of_part in sorted(sizes.items(), key=lambda item: -sum(item[1]))
    }
