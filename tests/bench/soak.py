"""Growth of memory and descriptors of every process over a long run.

Runs the whole control plane with a fleet that reports continuously. After a warm-up (half of the run, at most ten
minutes) each process is sampled every few seconds; a linear fit gives its slope. No growth means less than 1 MB per
minute and less than one descriptor per ten minutes, beyond two standard errors of the fit. The broker and PostgreSQL
are reported and not judged, because they keep the memory that they are configured to use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.bench.control_plane import SERVICES, control_plane, load
from tests.bench.ingestion import describe
from tests.bench.verdict import Target

MEMORY_MB_PER_MINUTE, DESCRIPTORS_PER_MINUTE = 1.0, 0.1
_LOOK_SECONDS = 5.0
_SETTINGS = {"SLACKWATER_INGESTION_WINDOW_SECONDS": "10"}


def measure(directory: Path, *, minutes: float, nodes: int = 200) -> dict[str, Any]:
    """Measures the figure; see the module docstring."""
    return asyncio.run(_measure(directory, minutes, nodes))


async def _measure(directory: Path, minutes: float, nodes: int) -> dict[str, Any]:
    warm_seconds = min(600.0, 30.0 * minutes)
    looks: list[tuple[float, dict[str, tuple[float, int]]]] = []
    async with control_plane(directory, settings=_SETTINGS) as plane:
        await describe(plane, nodes)
        options = ("--nodes", str(nodes), "--interval", "5", "--period", "10", "--seconds", str(60 * minutes + 10))
        async with load(plane, directory / "ledger.json", *options):
            began = time.monotonic()
            while (at := time.monotonic() - began) < 60 * minutes:
                if at >= warm_seconds:
                    found = {name: (one.memory_mb, one.descriptors) for name, one in plane.read().items()}
                    looks.append((at / 60, found))
                await asyncio.sleep(_LOOK_SECONDS)
    parts = {name: _lines(name, looks) for name in looks[0][1] if name != "generator"}
    return {
        "minutes": minutes,
        "nodes": nodes,
        "warm_minutes": round(warm_seconds / 60, 1),
        "looks": len(looks),
        "parts": parts,
        "targets": tuple(
            Target(f"{name} {what}", parts[name][key], limit, unit)
            for name in SERVICES
            for what, key, limit, unit in (
                ("memory", "mb_per_minute_surely", MEMORY_MB_PER_MINUTE, "MB/min"),
                ("descriptors", "descriptors_per_minute_surely", DESCRIPTORS_PER_MINUTE, "/min"),
            )
        ),
    }


def _lines(name: str, looks: Sequence[tuple[float, dict[str, tuple[float, int]]]]) -> dict[str, Any]:
    minutes = [at for at, _ in looks]
    memory = [found[name][0] for _, found in looks if name in found]
    files = [float(found[name][1]) for _, found in looks if name in found]
    memory_slope, memory_error = slope(minutes[: len(memory)], memory)
    files_slope, files_error = slope(minutes[: len(files)], files)
    return {
        "memory_mb": [round(memory[0], 1), round(memory[-1], 1)],
        "mb_per_minute": round(memory_slope, 3),
        "descriptors": [int(files[0]), int(files[-1])],
        "descriptors_per_minute": round(files_slope, 3),
        "mb_per_minute_surely": round(memory_slope - 2 * memory_error, 3),
        "descriptors_per_minute_surely": round(files_slope - 2 * files_error, 3),
    }


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope of the linear fit and its standard error; zero for fewer than three points."""
    if len(x) < 3:
        return 0.0, 0.0
    across, up = np.array(x), np.array(y)
    spread = ((across - across.mean()) ** 2).sum()
    found = float(((across - across.mean()) * (up - up.mean())).sum() / spread)
    rest = up - up.mean() - found * (across - across.mean())
    return found, float(np.sqrt((rest**2).sum() / (len(x) - 2) / spread))
