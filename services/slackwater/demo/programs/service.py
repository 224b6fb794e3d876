"""The prod workload: an HTTP service that does real CPU work for every request.

    python -m slackwater.demo.programs.service --workers 2 --rounds 30000 --announce FILE [--port 0] [--owner PID]

An answer begins with the cgroup instance that the service runs in. With an owner it ends when that process is gone,
because a pod that an agent started outlives the agent and the demo.

Workers are processes that block in accept() on one shared socket, so an idle worker accepts the next request. Other
requests wait in the listen queue, not on a CPU, so the measured pressure is contention with other work. A request costs
a fixed amount of work (`--rounds` of key stretching to sign a document), not a fixed time.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

from slackwater.runtime.parent_death import die_with_parent

_DOCUMENT = json.dumps([{"order": n, "sku": f"item-{n * 7919 % 997}", "price": n * 1.07} for n in range(60)]).encode()
_LISTEN_QUEUE, _OWNER_SECONDS = 1024, 0.5
_CALIBRATION_ROUNDS = 5000
_CLIENT_PATIENCE_SECONDS = 5.0


def instance_of(cgroups: str) -> str:
    """Returns the instance whose cgroup a process is in, from the text of /proc/PID/cgroup; `-`: of none."""
    found = re.search(r"/slackwater-([^/\n]+)", cgroups)
    return found[1] if found else "-"


_INSTANCE: Final = instance_of(Path("/proc/self/cgroup").read_text())


def answer(rounds: int) -> bytes:
    """The work of one request: a quote, signed with a key stretched over `rounds` iterations of HMAC-SHA256.

    Key stretching runs in registers and cache: its cost is linear in the rounds and, unlike compression in a hot loop,
    independent of memory allocation.
    """
    key = hashlib.pbkdf2_hmac("sha256", _DOCUMENT, b"slackwater-demo", rounds)
    return hmac.digest(key, _DOCUMENT, "sha256").hex().encode()


def seconds_per_round(budget_seconds: float = 0.3) -> float:
    """CPU seconds of one round on this machine, measured in CPU time so that contention is not counted."""
    rounds, began = 0, time.thread_time()
    while (spent := time.thread_time() - began) < budget_seconds:
        answer(_CALIBRATION_ROUNDS)
        rounds += _CALIBRATION_ROUNDS
    return spent / rounds


def rounds_for(target_seconds: float) -> int:
    """The number of rounds that cost about `target_seconds` of CPU on this machine; at least one."""
    return max(1, round(target_seconds / seconds_per_round()))


def _handle(connection: socket.socket, rounds: int) -> None:
    connection.settimeout(_CLIENT_PATIENCE_SECONDS)
    request = b""
    while b"\r\n\r\n" not in request and len(request) < 65536:
        chunk = connection.recv(65536)
        if not chunk:
            return
        request += chunk
    body = f"{_INSTANCE} ".encode() + answer(rounds) + b"\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


def _work(listener: socket.socket, rounds: int) -> None:
    while True:
        try:
            connection, _ = listener.accept()
            with connection:
                _handle(connection, rounds)
        except OSError:  # the client disconnected or was too slow
            continue


def serve(port: int, workers: int, rounds: int, announce: Path | None, owner: int | None = None) -> int:
    """Run until SIGTERM or SIGINT, or the end of the owner. Exit with 1 if a worker ends by itself, because capacity is
    missing then."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_LISTEN_QUEUE)
    children = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            die_with_parent()
            _work(listener, rounds)
        children.append(pid)

    def stop(_signal: int, _frame: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        if announce is not None:  # a reader may terminate this process at once
            facts = {"port": listener.getsockname()[1], "rounds": rounds, "pid": os.getpid()}
            draft = announce.with_suffix(".tmp")
            draft.write_text(json.dumps(facts))
            draft.rename(announce)
        while owner is not None and Path(f"/proc/{owner}").exists():
            time.sleep(_OWNER_SECONDS)
        if owner is None:
            os.wait()
        return 1
    finally:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo service: real CPU work per HTTP request.")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--workers", type=int, default=max(2, os.cpu_count() or 2))
    parser.add_argument("--rounds", type=int, default=0, help="work per request; 0 calibrates to --request-ms")
    parser.add_argument("--request-ms", type=float, default=6.0, help="approximate CPU time per request")
    parser.add_argument("--announce", type=Path, help="file to write port, rounds and pid to when ready")
    parser.add_argument("--owner", type=int, help="process with which the service ends")
    given = parser.parse_args()
    rounds = given.rounds or rounds_for(given.request_ms / 1000)
    return serve(given.port, given.workers, rounds, given.announce, given.owner)


if __name__ == "__main__":
    sys.exit(main())
