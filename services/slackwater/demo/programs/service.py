"""The prod workload: an HTTP service that does real CPU work for every request.

An answer begins with the cgroup instance that the service runs in. With an owner it ends when that process is gone,
because a pod that an agent started outlives the agent and the demo.

Workers are processes that block in accept() on one shared socket, so an idle worker accepts the next request. Other
requests wait in the listen queue, not on a CPU, so the measured pressure is contention with other work. A request costs
a fixed amount of work (rounds of key stretching to sign a document), not a fixed time.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import socket
import time
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Final, NoReturn

from slackwater.demo.programs.workers import start_workers

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


def _handle(client: socket.socket, rounds: int) -> None:
    client.settimeout(_CLIENT_PATIENCE_SECONDS)
    with client.makefile("rb") as request:
        while request.readline() not in (b"\r\n", b""):
            continue
    body = f"{_INSTANCE} ".encode() + answer(rounds) + b"\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    client.sendall(head.encode() + body)


def _work(listener: socket.socket, rounds: int) -> NoReturn:
    while True:
        try:
            client, _ = listener.accept()
            with client:
                _handle(client, rounds)
        except OSError:  # the client disconnected or was too slow
            continue


def main(
    workers: int, request_ms: float = 0.0, rounds: int = 0, port: int = 0, announce: str = "", owner: int = 0
) -> int:
    """Serve until SIGTERM or SIGINT, or the end of the owner. Returns 1 if a worker ends, because capacity is missing
    then. Without `rounds`, a request costs `request_ms` of CPU; `announce` is written once requests are answered.
    """
    rounds = rounds or max(1, round(request_ms / 1000 / seconds_per_round()))
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_LISTEN_QUEUE)
    sentinels = start_workers(workers, partial(_work, listener, rounds))
    if announce:  # a reader may terminate this process at once
        draft = Path(f"{announce}.tmp")
        draft.write_text(json.dumps({"port": listener.getsockname()[1], "rounds": rounds, "pid": os.getpid()}))
        draft.rename(announce)
    while not owner or Path(f"/proc/{owner}").exists():
        if connection.wait(sentinels, _OWNER_SECONDS):
            break
    return 1
