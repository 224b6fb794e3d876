"""Idle cost of the whole stack: memory and CPU of its process, of PostgreSQL and of NATS."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.processes import cpu_seconds, tree

_SETTLE_SECONDS = 8.0


def measure(state_dir: Path, seconds: int) -> dict[str, Any]:
    """Mean CPU (share of one core) and RSS at the end, per process name of the tree."""
    with stack.running(state_dir) as (pid, _):
        time.sleep(_SETTLE_SECONDS)
        before = {process: cpu_seconds(process) for process in tree(pid)}
        began = time.monotonic()
        time.sleep(seconds)
        span = time.monotonic() - began
        parts: dict[str, dict[str, float]] = {}
        for process in tree(pid):
            name = "slackwater" if process == pid else command(process)
            part = parts.setdefault(name, {"cpu_share": 0.0, "rss_mb": 0.0, "processes": 0})
            part["cpu_share"] += (cpu_seconds(process) - before.get(process, 0.0)) / span
            part["rss_mb"] += rss_mb(process)
            part["processes"] += 1
    rounded = {name: {key: round(value, 4) for key, value in part.items()} for name, part in parts.items()}
    return {"seconds": seconds, "processes": rounded}


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
