"""Cost of seeds of the simulated world: CPU seconds of a full one and of a small one, and how long a campaign takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.verdict import REFERENCE_ROUNDS_PER_SECOND, Scale, Target
from tests.world.pace import SMALL_NODES, SMALL_SECONDS

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
FULL_SEEDS, SMALL_SEEDS = 16, 24
CAMPAIGN_SEEDS, CAMPAIGN_MINUTES = 2000, 20.0
TEST_SEEDS, TEST_SECONDS = 100, 60.0
_LONGEST_SECONDS = 900.0


def measure(path: Path, speed: float) -> dict[str, Any]:
    """Performs the first seeds of both sizes, with two workers. The times of 2,000 full and of 100 small seeds follow
    from the CPU time of one, on two cores: the wall clock of so few seeds has one worker waiting for the other."""
    full = _campaign(path / "full.jsonl", FULL_SEEDS)
    small_size = ("--nodes", str(SMALL_NODES), "--seconds", f"{SMALL_SECONDS:g}")
    small = _campaign(path / "small.jsonl", SMALL_SEEDS, *small_size)
    minutes = CAMPAIGN_SEEDS * full["cpu_seconds"] / WORKERS / 60
    seconds = TEST_SEEDS * small["cpu_seconds"] / WORKERS
    return {
        "full": full | {"calibration_rounds": _rounds(full, speed)},
        "small": small | {"calibration_rounds": _rounds(small, speed)},
        "minutes_of_2000_full": round(minutes, 1),
        "seconds_of_100_small": round(seconds, 1),
        "targets": (
            Target("2,000 full seeds on 2 cores", minutes, CAMPAIGN_MINUTES, "min", Scale.TIME),
            Target("100 small seeds on 2 cores", seconds, TEST_SECONDS, "s", Scale.TIME),
        ),
    }


def _rounds(campaign: dict[str, Any], speed: float) -> int:
    """Returns the rounds of the calibration loop in the CPU time of a seed: a cost that no machine changes."""
    cpu_seconds: float = campaign["cpu_seconds"]
    return round(cpu_seconds * speed * REFERENCE_ROUNDS_PER_SECOND)


def _campaign(outcomes: Path, seeds: int, *size: str) -> dict[str, Any]:
    """A seed that violates an invariant may have ended early: it does not count. Raises RuntimeError if one of four
    does, or if the campaign breaks off."""
    options = ("--seeds", str(seeds), "--workers", str(WORKERS), "--json", str(outcomes), *size)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.world", "--first", "1", *options],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS,
    )  # fmt: skip
    minutes = (time.monotonic() - began) / 60
    lines = outcomes.read_text().splitlines() if outcomes.exists() else []
    rows = [row for row in map(json.loads, lines) if not row["failure"]]
    if len(lines) != seeds or 4 * len(rows) <= 3 * seeds:
        raise RuntimeError(done.stdout.strip() + done.stderr.strip())
    return {
        "seeds": len(rows),
        "seeds_failed": [row["seed"] for row in map(json.loads, lines) if row["failure"]],
        "cpu_seconds": sum(row["cpu_seconds"] for row in rows) / len(rows),
        "seeds_a_minute": round(len(rows) / minutes, 1),
        "callbacks": sum(row["steps"] for row in rows) // len(rows),
        "faults": sum(sum(row["faults"].values()) for row in rows) // len(rows),
    }
