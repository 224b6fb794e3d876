"""Volume of the stream DECISIONS: a simulated fleet below a low waterline, bytes by event and kind, and projected days.

`python -m tests.bench.decision_volume --nodes 30 --seconds 240` runs `slackwater up` with the simulated driver in a
folder of its own, counts what is published to the stream and what stays in it, and prints one JSON document. Bytes do
not depend on the load of the machine. `--settle` seconds at the start are not counted: with a low waterline every node
then uses up its burst, and what follows is the lasting rate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.js import JetStreamContext

from slackwater.bus.admin.streams import load

STREAM = "DECISIONS"
PROMISED_DAYS = 30
_STORED_MESSAGE_BYTES = 22
"""What JetStream adds per message in its file, and 4 more with headers."""


def stored_bytes(subject: str, headers: dict[str, str], body: int) -> int:
    """The size of a message as `max_bytes` counts it."""
    lines = len("NATS/1.0\r\n\r\n") + sum(len(f"{name}: {value}\r\n") for name, value in headers.items())
    return _STORED_MESSAGE_BYTES + len(subject) + 4 + lines + body


async def _connected(folder: Path) -> Any:
    async with asyncio.timeout(120):
        while True:
            for file in (folder / "nats").glob("*.ports"):
                urls = json.loads(file.read_text() or "{}").get("nats")
                if urls:
                    return await nats.connect(urls[0])
            await asyncio.sleep(0.5)


async def _state(js: JetStreamContext) -> Any:
    async with asyncio.timeout(120):
        while True:
            try:
                return (await js.stream_info(STREAM)).state
            except nats.js.errors.NotFoundError:
                await asyncio.sleep(1)


@dataclass
class Volume:
    """Messages and bytes published to the stream, by event; of records by service, kind and form."""

    parts: dict[str, tuple[int, int]] = field(default_factory=dict)

    async def count(self, message: Any) -> None:
        part = ".".join(message.subject.split(".")[2:4])
        if part == "decision.recorded":
            record = json.loads(message.data)["record"]
            part = f"{record['service']} {record['kind']}{' compact' * record.get('compact', False)}"
        number, size = self.parts.get(part, (0, 0))
        size += stored_bytes(message.subject, message.headers or {}, len(message.data))
        self.parts[part] = number + 1, size


async def measure(folder: Path, nodes: int, seconds: float, settle: float, waterline: float) -> dict[str, Any]:
    """The volume of a fleet; see the module docstring."""
    environment = os.environ | {
        "SLACKWATER_STATE_DIR": str(folder),
        "SLACKWATER_ENSURANCE_WATERLINE": str(waterline),
    }
    command = [sys.executable, "-m", "slackwater.cli", "up", "--driver", "simulated", "--nodes", str(nodes)]
    process = await asyncio.create_subprocess_exec(
        *command, "--port", "0", "--seconds", str(int(settle + seconds + 120)), env=environment, stdout=sys.stderr
    )
    try:
        connection = await _connected(folder)
        js = connection.jetstream()
        await _state(js)
        await asyncio.sleep(settle)
        before, volume = await _state(js), Volume()
        for subject in load().streams[STREAM].subjects:
            await connection.subscribe(subject, cb=volume.count)
        await asyncio.sleep(seconds)
        after = await _state(js)
        await connection.close()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    return _report(volume.parts, after.bytes - before.bytes, nodes, seconds)


def _report(parts: dict[str, tuple[int, int]], kept: int, nodes: int, seconds: float) -> dict[str, Any]:
    node_hours = nodes * seconds / 3600
    per_node_hour = sum(size for _, size in parts.values()) / node_hours
    limit = load().streams[STREAM].max_bytes
    return {
        "nodes": nodes,
        "seconds": seconds,
        "published_bytes_per_node_hour": round(per_node_hour),
        "kept_bytes_per_node_hour": round(kept / node_hours),
        "days_until_full_at_this_growth": {
            str(number): round(limit * node_hours / max(1, kept) / number / 24, 2) for number in (30, 300, 1000)
        },
        "max_bytes": limit,
        "parts": {
            part: {
                "records_per_node_hour": round(number / node_hours, 1),
                "bytes_each": round(of_part / number),
                "bytes_per_node_hour": round(of_part / node_hours),
            }
            for part, (number, of_part) in sorted(parts.items(), key=lambda item: -item[1][1])
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="decision_volume", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--settle", type=float, default=60.0)
    parser.add_argument("--waterline", type=float, default=0.02)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slackwater-volume-") as folder:
        found = asyncio.run(measure(Path(folder), given.nodes, given.seconds, given.settle, given.waterline))
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
