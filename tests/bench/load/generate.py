"""The load generator: nodes that report on schedule, regardless of backlog (open loop). A separate process.

    python -m tests.bench.load.generate --nats URL --nodes 2000 --interval 5 --seconds 60 --period 60 --ledger FILE

Writes a ledger (JSON): the wall time at which each report was sent, by number, and the confirmations of the stream;
report number n is node n % nodes with sequence n // nodes + 1. Ends when all are confirmed, or after ten more seconds.

With --ramp S the fleet grows for S seconds: the same number of nodes starts with each interval.

With --every N one report of N is above the default waterline and is sent as an agent sends it: as waterline.crossed at
once, on a separate connection, and as usage.reported on schedule. `crossed` has the numbers of these reports.

Rosters are sent before the first report of each node, and repeated as agents repeat them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
import uuid
from array import array
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.load import fleet, wire

from slackwater.bus.rosters.roster_publisher import REPEAT_SECONDS

_TICK_SECONDS = 0.005
_LAST_ANSWERS_SECONDS = 10.0


class Rosters:
    """The rosters of all nodes, on a connection of their own."""

    def __init__(self, line: wire.Wire, pods: int, nodes: int, interval: float) -> None:
        self.line = line
        self._template = fleet.roster(pods)
        self._subjects = fleet.roster_subjects(nodes)
        self._repeat_every = max(1, round(REPEAT_SECONDS / interval))
        self._prefix = uuid.uuid4().hex[:8]

    @property
    def body_bytes(self) -> int:
        return len(self._template.body)

    async def publish_all(self) -> None:
        """Returns when the broker has stored them, or after ten seconds."""
        for node in range(len(self._subjects)):
            self._publish(node, 1, datetime.now(UTC))
            if node % 100 == 0:
                await asyncio.sleep(0)
        ends = time.monotonic() + _LAST_ANSWERS_SECONDS
        while not all(self.line.acked) and time.monotonic() < ends:
            await asyncio.sleep(_TICK_SECONDS)

    def repeat_when_due(self, node: int, sequence: int, when: datetime) -> None:
        """Publish again before a report; each node at its own time."""
        if sequence > 1 and (sequence + node) % self._repeat_every == 0:
            self._publish(node, sequence, when)

    def _publish(self, node: int, sequence: int, when: datetime) -> None:
        identity = f"{self._prefix}-0000-7000-8000-{self.line.published:012x}".encode()
        self.line.publish(self._subjects[node], *self._template.filled(node, sequence, when, identity))


async def generate(options: argparse.Namespace) -> dict[str, object]:
    connection = await wire.connect(options.nats, "bench-fleet")
    nodes, interval = options.nodes, options.interval
    levels = [fleet.message(options.pods, level, interval) for level in (0.5, 0.8)]
    subjects = fleet.subjects(nodes)
    urgent = await wire.connect(options.nats, "bench-urgent")
    above, urgent_subjects = fleet.crossing(options.pods, 0.8, interval), fleet.subjects(nodes, urgent=True)
    rosters = Rosters(await wire.connect(options.nats, "bench-rosters"), options.pods, nodes, interval)
    await rosters.publish_all()
    crossed: dict[int, int] = {}
    sent_at, sampled = array("d"), array("d")
    total = int(nodes * options.seconds / interval)
    prefix = uuid.uuid4().hex
    rounds = max(1, round(options.ramp / interval))
    began, began_at = time.monotonic(), time.time()
    worst_lag = 0.0
    while len(sent_at) < total:
        due = min(total, int((time.monotonic() - began) * nodes / interval) + 1)
        for number in range(len(sent_at), due):
            node, sequence = number % nodes, number // nodes + 1
            moment = began_at + number * interval / nodes
            if node % rounds >= sequence:  # has not begun
                sent_at.append(0.0)
                sampled.append(moment)
                continue
            level = levels[int((moment + node * options.period / nodes) // options.period) % 2]
            identity = f"{prefix[:8]}-{prefix[8:12]}-7{prefix[13:16]}-8{prefix[17:20]}-{number:012x}".encode()
            when = datetime.fromtimestamp(moment, UTC)
            if fleet.crosses(node, sequence, options.every):
                level = above[0]
                crossed[number] = urgent.publish(
                    urgent_subjects[node], *above[1].filled(node, sequence, when, identity)
                )
                urgent.stored_at[crossed[number]] = connection.stored_at[number] = 0.0
            rosters.repeat_when_due(node, sequence, when)
            head, body = level.filled(node, sequence, when, identity)
            connection.publish(subjects[node], head, body)
            now = time.time()
            sent_at.append(now)
            sampled.append(moment)
            worst_lag = max(worst_lag, now - moment)
        await asyncio.sleep(_TICK_SECONDS)
    ended = time.monotonic()
    while not all(connection.acked) and time.monotonic() < ended + _LAST_ANSWERS_SECONDS:
        await asyncio.sleep(0.05)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "pid": os.getpid(),
        "published": connection.published,
        "acked": sum(connection.acked),
        "unconfirmed": [number for number, done in enumerate(connection.acked) if not done][:10_000],
        "refused": connection.refused[:5],
        "seconds": ended - began,
        "worst_lag_seconds": worst_lag,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "body_bytes": len(levels[0].body),
        "roster_bytes": rosters.body_bytes,
        "rosters": rosters.line.published,
        "rosters_refused": rosters.line.refused[:5],
        "crossed": {number: urgent.stored_at[own] or None for number, own in crossed.items()},
        "crossed_refused": urgent.refused[:5],
        "stored_at": {number: at or None for number, at in connection.stored_at.items()},
        "sent_at": list(sent_at) if options.times else [],
        "sampled_at": list(sampled) if options.times else [],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nats", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, default=30)
    parser.add_argument("--interval", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--period", type=float, default=60.0, help="seconds between changes of usage")
    parser.add_argument("--ramp", type=float, default=0.0, help="seconds in which the fleet grows")
    parser.add_argument("--every", type=int, default=0, help="one report of N is above the waterline; 0: none")
    parser.add_argument("--times", action="store_true", help="write the time of each report")
    parser.add_argument("--ledger", type=Path, required=True)
    options = parser.parse_args()
    found = asyncio.run(generate(options))
    options.ledger.write_text(json.dumps(found))
    sys.stdout.write(f"{found['acked']} of {found['published']} confirmed\n")


if __name__ == "__main__":
    main()
