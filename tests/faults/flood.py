"""An open-loop generator: reports at a fixed rate, regardless of backlog, over one raw connection.

`python -m tests.faults.flood --nats URL --rate N --seconds S --nodes N --state FILE`; prints the achieved rate.
It implements the protocol itself, because any client would be slower than the consumer that it is to overload. It runs
at nice 5, because in production it is not on the broker's machine; it needs a tenth of a core.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.clock import EPOCH
from tests.support.reports import pod_usage, report

from slackwater.bus.codec.cloudevents import encode
from slackwater.events.envelope import event_of
from slackwater.model.tiers import Tier

_TICK_SECONDS = 0.01
_SEQUENCE, _ID = 77_777_777, "11111111-2222-4333-8444-555555555555"


def node_name(number: int) -> str:
    return f"flood-{number:04d}"


class Template:
    """One node's report as bytes, with placeholders for time, sequence and id."""

    def __init__(self, node: str) -> None:
        pods = [pod_usage(f"{node}-a", Tier.PROD, 900), pod_usage(f"{node}-b", Tier.BATCH, 700)]
        data = report(node, _SEQUENCE, EPOCH + timedelta(seconds=12345), cpu_milli=2000, pods=pods)
        message = encode(event_of(data, source=node, time=EPOCH, id=_ID))
        lines = [f"{name}: {text}" for name, text in message.headers.items()]
        self._headers = ("NATS/1.0\r\n" + "\r\n".join(lines) + "\r\n\r\n").replace(_ID, "%s")
        sampled = json.loads(message.body)["sampled_at"]
        body = message.body.decode().replace(f'"{sampled}"', '"%s"').replace(str(_SEQUENCE), "%d")
        self._body = body
        self._subject = message.subject
        self.in_order = body.index("%d") < body.index("%s")

    def frame(self, sequence: int, at: str, identity: str) -> bytes:
        headers = self._headers % (identity, identity)
        body = self._body % ((sequence, at) if self.in_order else (at, sequence))
        whole = f"{headers}{body}"
        return f"HPUB {self._subject} {len(headers)} {len(whole)}\r\n{whole}\r\n".encode()


def flood(url: str, rate: float, seconds: float, nodes: int, state: Path) -> int:
    """Returns the number of reports written in time. `state` stores the sequences for the next call."""
    sequences = json.loads(state.read_text()) if state.exists() else [0] * nodes
    templates = [Template(node_name(number)) for number in range(nodes)]
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.recv(4096)
        connection.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"name":"flood"}\r\n')
        sent, began = 0, time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            due = min(int((now - began) * rate) - sent, int(rate * 0.05) + 1)
            at = datetime.now(UTC).isoformat()
            frames = []
            for _ in range(max(0, due)):
                number = sent % nodes
                sequences[number] += 1
                frames.append(templates[number].frame(sequences[number], at, _identity(number, sequences[number])))
                sent += 1
            if frames:
                connection.sendall(b"".join(frames))
            time.sleep(max(0.0, _TICK_SECONDS - (time.monotonic() - now)))
        connection.sendall(b"PING\r\n")
        connection.settimeout(20)
        connection.recv(4096)
    state.write_text(json.dumps(sequences))
    return sent


def _identity(node: int, sequence: int) -> str:
    return f"{node:08x}-0000-4000-8000-{sequence:012x}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nats", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    options = parser.parse_args()
    os.nice(5)
    sys.stdout.write(f"{flood(options.nats, options.rate, options.seconds, options.nodes, options.state)}\n")


if __name__ == "__main__":
    main()
