"""A stream delivered twice and out of order: the final state equals that of the original stream, byte for byte."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.oracle import Findings
from tests.faults.scenario import Result, Strictness
from tests.faults.site import Site, harness_bus, pending, site
from tests.support.story import FLEET, story
from tests.support.windows import START, described, window

from slackwater.bus.admin.streams import load
from slackwater.bus.codec.cloudevents import MESSAGE_ID, encode
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import Event
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported

SEED = 20
WINDOWS = 40
_AT_ONCE = 500
_INGESTION = (
    "SELECT name, facts::text, boot_epoch, last_sequence, missing, newest_at, gaps FROM ingestion.nodes ORDER BY 1",
    """SELECT node, boot_epoch, sequence, sampled_at, window_seconds, cpu, memory, system_cpu, system_memory,
    prod_cpu_last, prod_cpu_avg FROM ingestion.node_usage ORDER BY 1, 2, 3""",
    """SELECT node, boot_epoch, sequence, uid, tier, cpu, memory, cpu_limit_milli FROM ingestion.pod_usage
    ORDER BY 1, 2, 3, 4""",
    "SELECT uid, node, pod::text FROM ingestion.pods ORDER BY 1",
)
_CONSOLE = tuple(
    f"SELECT to_jsonb(t)::text FROM console.{table} t ORDER BY 1"  # noqa: S608 - constants
    for table in ("node", "usage_point", "forecast", "offer", "decision", "effect", "observation", "eviction")
)
_LONG = {
    "SLACKWATER_INGESTION_WINDOW_SECONDS": "3600",
    "SLACKWATER_INGESTION_LATENESS_SECONDS": "3600",
    "SLACKWATER_INGESTION_CLOCK_BEHIND_SECONDS": "7200",
    "SLACKWATER_INGESTION_LOST_SECONDS": "7200",
}

Disorder = Callable[[Sequence[Event[Any]], random.Random], list[Event[Any]]]


def as_it_was(events: Sequence[Event[Any]], _: random.Random) -> list[Event[Any]]:
    return list(events)


def twice_and_shuffled(events: Sequence[Event[Any]], dice: random.Random) -> list[Event[Any]]:
    """All events twice, shuffled; only the description of a node comes first, as in an agent's queue."""
    first = [event for event in events if isinstance(event.data, NodeDescribed)]
    rest = [event for event in events if not isinstance(event.data, NodeDescribed)] * 2
    dice.shuffle(rest)
    return [*first, *rest, *first]


def twice_and_interleaved(events: Sequence[Event[Any]], dice: random.Random) -> list[Event[Any]]:
    """For events that are ordered per key by contract (outbox): in order per node, each twice, nodes interleaved."""
    queues: dict[str, list[Event[Any]]] = {}
    for event in events:
        queues.setdefault(event.data.key(), []).append(event)
    found: list[Event[Any]] = []
    while queues:
        key = dice.choice(sorted(queues))
        event = queues[key].pop(0)
        found += [event, event] if dice.random() < 0.5 else [event]
        late = [one for one in found if one.data.key() == key]
        if dice.random() < 0.5:
            found.append(dice.choice(late))
        if not queues[key]:
            del queues[key]
    return found


async def order(folder: Path, strictness: Strictness) -> Result:
    """Ingestion, console and prediction each process the same history twice: in order, and shuffled."""
    result = Result()
    now = datetime.now(UTC)
    events = story(now, FLEET)
    reports = [event for event in events if isinstance(event.data, NodeDescribed | UsageReported)]
    await _compare(result, folder, "ingestion", reports, twice_and_shuffled, _ingestion_state)
    await _compare(result, folder, "console", events, twice_and_shuffled, _console_state)
    await _compare(result, folder, "prediction", _windows(now), twice_and_interleaved, _prediction_state)
    return result


async def _compare(
    result: Result,
    folder: Path,
    service: str,
    events: Sequence[Event[Any]],
    mixed: Disorder,
    state: Callable[[Site, NatsBus], Any],
) -> None:
    hashes = []
    for name, disorder in (("orderly", as_it_was), ("mixed", mixed)):
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(site(folder / f"{service}-{name}", (service,), environment=_LONG))
            bus = await stack.enter_async_context(harness_bus(here.broker.url))
            given = disorder(events, random.Random(SEED))
            await _publish(here, bus, given)
            await here.settled(bus)
            hashes.append(await state(here, bus))
            result.max_rss_bytes = max(result.max_rss_bytes, *here.memory.highest.values())
            result.findings += Findings(offered=len(given), acked=len(given))
        result.facts[f"seconds of {service}, {name}"] = round(time.monotonic() - began, 1)
        result.facts[f"state of {service}, {name}"] = hashes[-1]
    result.promise(f"{service} reaches the same final state", hashes[0] == hashes[1])


async def _publish(here: Site, bus: NatsBus, events: Sequence[Event[Any]]) -> None:
    """Publish in this order, without the message id by which the broker deduplicates; slowly enough that no stream
    removes a message before it is read (most keep only the last one per subject)."""
    streams = load().streams
    part: list[Event[Any]] = []
    kept: Counter[str] = Counter()
    for event in events:
        limit = streams[event.data.STREAM].max_messages_per_subject or _AT_ONCE
        if kept[event.subject] >= max(1, limit // 2) or len(part) >= _AT_ONCE:
            await _send(here, bus, part)
            part, kept = [], Counter()
        part.append(event)
        kept[event.subject] += 1
    await _send(here, bus, part)


async def _send(here: Site, bus: NatsBus, events: Sequence[Event[Any]]) -> None:
    for event in events:
        message = encode(event)
        headers = {name: text for name, text in message.headers.items() if name != MESSAGE_ID}
        await bus.jetstream.publish(message.subject, message.body, headers=headers)
    while await pending(bus, here.programs):
        await asyncio.sleep(0.005)


def _windows(now: datetime) -> list[Event[Any]]:
    """Up to an hour of windows of six nodes, with pods that come and go."""
    first = int((now - START).total_seconds()) // 60 - WINDOWS - 1
    names = [f"w-{number}" for number in range(6)]
    found: list[Event[Any]] = [described(name, number=first) for name in names]
    for number in range(first, first + WINDOWS):
        for place, name in enumerate(names):
            pods = {f"{name}-a": 400 + 37 * ((number * (place + 3)) % 11), f"{name}-b": 900}
            if number % 7 > place:
                del pods[f"{name}-b"]
            found.append(window(name, number, pods))
    return found


async def _hash(here: Site, queries: Sequence[str]) -> str:
    """One hash per query, so that a difference can be located."""
    words = []
    for query in queries:
        digest, rows = hashlib.sha256(), await here.rows(query)
        for row in rows:
            digest.update(repr(tuple(row)).encode())
        words.append(f"{len(rows)}:{digest.hexdigest()[:12]}")
    return " ".join(words)


async def _ingestion_state(here: Site, bus: NatsBus) -> str:
    return await _hash(here, _INGESTION)


async def _console_state(here: Site, bus: NatsBus) -> str:
    return await _hash(here, _CONSOLE)


async def _prediction_state(here: Site, bus: NatsBus) -> str:
    """The position of each node and its last predictions; publication times depend on a clock and are left out."""
    return await _hash(here, ["SELECT node, until_seconds, amounts FROM prediction.published_windows ORDER BY 1"])
