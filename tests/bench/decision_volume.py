"""Volume of the stream DECISIONS: a simulated fleet below a low waterline, bytes by event and kind, and projected days.

`python -m tests.bench.decision_volume --nodes 30 --seconds 240` runs `slackwater up` with the simulated driver in a
folder of its own, reads the stream by its sequence and prints one JSON document. Bytes do not depend on the load of the
machine. `--settle` seconds at the start are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import defaultdict
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


async def _by_part(js: JetStreamContext, first: int, last: int) -> dict[str, tuple[int, int]]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for sequence in range(first, last + 1):
        message = await js.get_msg(STREAM, sequence, direct=True)
        body = message.data or b""
        name = (message.subject or "").split(".")[2:4]
        part = ".".join(name)
        if part == "decision.recorded":
            record = json.loads(body)["record"]
            part = f"{record['service']} {record['kind']}"
            if record["kind"] in ("throttle", "restore", "evict"):
                part += " compact" if record.get("compact") else ""
        counted = found[part]
        counted[0] += 1
        counted[1] += stored_bytes(message.subject or "", message.headers or {}, len(body))
    return {part: (number, size) for part, (number, size) in found.items()}


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
        before = await _state(js)
        await asyncio.sleep(seconds)
        after = await _state(js)
        parts = await _by_part(js, before.last_seq + 1, after.last_seq)
        await connection.close()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    return _report(parts, after.bytes - before.bytes, nodes, seconds)


def _report(parts: dict[str, tuple[int, int]], size: int, nodes: int, seconds: float) -> dict[str, Any]:
    node_hours = nodes * seconds / 3600
    per_node_hour = size / node_hours
    limit = load().streams[STREAM].max_bytes
    return {
        "nodes": nodes,
        "seconds": seconds,
        "bytes_per_node_hour": round(per_node_hour),
        "days_until_full": {str(number): round(limit / per_node_hour / number / 24, 2) for number in (30, 300, 1000)},
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
