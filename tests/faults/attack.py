"""One agent that sends invalid messages with its own credentials, and honest agents beside it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nats.errors import Error as NatsError
from tests.faults.fleet import event_id, report_key
from tests.faults.ledger import Key, Ledger, Outcome
from tests.faults.mutations import Mutation
from tests.faults.site import Site
from tests.support.reports import described, pod_usage, report

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock

DESCRIBE_EVERY = 10
"""Reports between two descriptions of an honest node."""
LOOK_SECONDS = 0.03
_AROUND_SECONDS = 10.0
"""A report's window begins so long before it at most."""
_UNSEEN = """
SELECT stored.node, stored.sequence
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::float8[]) AS known(node, epoch, past, since)
JOIN ingestion.node_usage AS stored ON stored.node = known.node AND stored.boot_epoch = known.epoch
  AND stored.sequence > known.past AND stored.midpoint_at > to_timestamp(known.since)
"""
CPU_MILLI, USED_MILLI, SWING_MILLI = 16_000, 9_000, 3_000


@dataclass
class HonestAgent:
    """Reports at a fixed rate and describes its node periodically; records every operation and its outcome."""

    node: str
    bus: NatsBus
    ledger: Ledger
    epoch: str = field(default_factory=new_id)
    pause_seconds: float = 1.0
    sequence: int = 0
    sent_at: dict[int, float] = field(default_factory=dict)

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            if self.sequence % DESCRIBE_EVERY == 0:
                await self._describe()
            await self._report()
            await asyncio.sleep(max(0.0, self.pause_seconds - (time.monotonic() - began)))

    async def _describe(self) -> None:
        now = SystemClock().now()
        payload = described(self.node, now, cpu_milli=CPU_MILLI).model_copy(update={"boot_epoch": self.epoch})
        await self.bus.publish(event_of(payload, source=f"agent/{self.node}", time=now))

    async def _report(self) -> None:
        self.sequence += 1
        now, key = SystemClock().now(), report_key(self.node, self.epoch, self.sequence)
        event = event_of(self.usage(now), source=f"agent/{self.node}", time=now, id=event_id(key))
        self.ledger.meant(key)
        self.sent_at[self.sequence] = time.time()
        try:
            await self.send(event)
        except Unavailable:
            return
        self.ledger.came(key, Outcome.ACKED)

    async def send(self, event: Event[UsageReported]) -> None:
        """Publish a report. Raises Unavailable."""
        await self.bus.publish(event)

    def usage(self, now: datetime) -> UsageReported:
        """The report of this sequence. Usage changes every few seconds, so that predictions and offers change."""
        used = USED_MILLI + (SWING_MILLI if self.sequence // 8 % 2 else 0)
        pods = [pod_usage(f"{self.node}-{number}", tier, used // 3)
                for number, tier in enumerate((Tier.PROD, Tier.PROD, Tier.BATCH))]  # fmt: skip
        return report(self.node, self.sequence, now, boot_epoch=self.epoch, cpu_milli=used, pods=pods,
                      window_seconds=1.0)  # fmt: skip


@dataclass
class StoredReports:
    """Seconds from the publication of each honest report until it was found in ingestion's table."""

    site: Site
    agents: Sequence[HonestAgent]
    seen: dict[Key, float] = field(default_factory=dict)

    async def watch(self) -> None:
        past: Counter[str] = Counter()
        by_node = {agent.node: agent for agent in self.agents}
        while True:
            reporting = [agent for agent in self.agents if past[agent.node] + 1 in agent.sent_at]
            rows = await self.site.rows(
                _UNSEEN,
                [agent.node for agent in reporting],
                [agent.epoch for agent in reporting],
                [past[agent.node] for agent in reporting],
                [agent.sent_at[past[agent.node] + 1] - _AROUND_SECONDS for agent in reporting],
            )
            now = time.time()
            for row in rows:
                agent = by_node[row["node"]]
                key = report_key(agent.node, agent.epoch, row["sequence"])
                self.seen.setdefault(key, now - agent.sent_at[row["sequence"]])
            for agent in reporting:
                while report_key(agent.node, agent.epoch, past[agent.node] + 1) in self.seen:
                    past[agent.node] += 1
            await asyncio.sleep(LOOK_SECONDS)

    def delays(self, began: float, ended: float) -> list[float]:
        """Delays of the reports published in this time; that of a missing report is its age."""
        now = time.time()
        return [
            self.seen.get(report_key(agent.node, agent.epoch, sequence), now - at)
            for agent in self.agents
            for sequence, at in agent.sent_at.items()
            if began <= at < ended
        ]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the broker accepted, with its stream and position."""

    mutation: Mutation
    stream: str
    sequence: int


@dataclass
class Attacker:
    """Publishes mutations unchanged, over one connection."""

    bus: NatsBus
    sent: list[Sent] = field(default_factory=list)
    refused_by_broker: Counter[str] = field(default_factory=Counter)

    async def send(self, mutations: Iterable[Mutation], per_second: float, seconds: float = float("inf")) -> None:
        """Send at a fixed rate, until the time is over or all are sent."""
        jetstream, began = self.bus.client.jetstream(timeout=1), time.monotonic()
        for number, mutation in enumerate(mutations):
            due = began + number / per_second
            if due - began > seconds:
                return
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            try:
                kept = await jetstream.publish(mutation.subject, mutation.body, headers=mutation.headers or None)
            except (NatsError, TimeoutError, ValueError):
                self.refused_by_broker[mutation.family] += 1  # too large (ends the connection), or no headers of NATS
                continue
            self.sent.append(Sent(mutation, kept.stream, kept.seq))


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, from its headers."""

    consumer: str
    reason: str
    subject: str
    stream: str
    sequence: int


async def dead_letters(bus: NatsBus, streams: Mapping[str, str]) -> list[Letter]:
    """All stored dead letters; `streams` is the stream of each consumer."""
    state = (await bus.jetstream.stream_info("DLQ")).state
    found = []
    for position in range(state.first_seq, state.last_seq + 1):
        try:
            headers = (await bus.jetstream.get_msg("DLQ", seq=position)).headers or {}
        except NatsError:
            continue
        consumer = headers.get("sw-consumer", "")
        found.append(Letter(consumer, headers.get("sw-reason", ""), headers.get("sw-subject", ""),
                            streams.get(consumer, ""), int(headers.get("sw-stream-sequence", "0"))))  # fmt: skip
    return found


def table(sent: Sequence[Sent], letters: Iterable[Letter], by_broker: Counter[str]) -> dict[str, dict[str, Any]]:
    """Counts by family: sent, and by result. `limited` (must be refused) and `accepted_or_limited` (may be accepted)
    have no dead letter."""
    reasons: dict[tuple[str, int], set[str]] = defaultdict(set)
    for letter in letters:
        reasons[letter.stream, letter.sequence].add(letter.reason)
    found: dict[str, dict[str, Any]] = {}
    for one in sent:
        row = found.setdefault(one.mutation.family, {"sent": 0, "refused": Counter(), "accepted_or_limited": 0,
                                                     "limited": 0, "by_broker": 0})  # fmt: skip
        row["sent"] += 1
        why = reasons.get((one.stream, one.sequence))
        if why:
            row["refused"].update(why)
        elif one.mutation.refused:
            row["limited"] += 1
        else:
            row["accepted_or_limited"] += 1
    for family, count in by_broker.items():
        found.setdefault(family, {"sent": 0, "refused": Counter(), "accepted_or_limited": 0, "limited": 0})
        found[family]["by_broker"] = count
    return {family: {**row, "refused": dict(row["refused"])} for family, row in sorted(found.items())}


def lines_of(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The table as text."""
    yield f"  {'mutation':38} {'sent':>5} {'limited':>7} {'accepted or limited':>19} {'broker':>6}  refused because"
    for family, row in rows.items():
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(row["refused"].items()))
        yield (f"  {family:38} {row['sent']:5} {row['limited']:7} {row['accepted_or_limited']:19}"
               f" {row.get('by_broker', 0):6}  {reasons}")  # fmt: skip
