"""Traces of a few nodes and days, made from a seed, as files that the commands read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HOURS = 60


class Silent:
    """Progress that is not shown."""

    def begin(self, what: str, steps: int | None) -> None:
        """Says nothing."""

    def advance(self, steps: int) -> None:
        """Says nothing."""


def write_trace(path: Path, *, pods: int = 6, hours: int = HOURS, seed: int = 1, memory: bool = True) -> Path:
    """A CSV with a row for each pod and hour: a day's wave, noise and a surge now and then."""
    chance = np.random.default_rng(seed)
    head = "time,pod,workload,cpu_milli,cpu_limit_milli" + (",memory_bytes,memory_limit_bytes" if memory else "")
    lines = [head]
    for hour in range(hours):
        wave = 0.15 + 0.1 * np.sin(2 * np.pi * hour / 24)
        for pod in range(pods):
            share = min(1.0, wave + chance.gamma(2.0, 0.05) + (0.4 if chance.random() < 0.05 else 0))
            row = f"{1_772_409_600 + hour * 3600},pod-{pod},app-{pod % 3},{round(2000 * share)},2000"
            lines.append(row + (f",{round(2**30 * (0.3 + share / 3))},{2**30}" if memory else ""))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_strategy(path: Path, name: str, **spec: object) -> Path:
    """A ColocationStrategy that is switched on unless `spec` says otherwise."""
    fields = {"enable": True, **spec}
    said = "".join(f"  {field}: {json.dumps(value)}\n" for field, value in fields.items())
    path.write_text(
        f"apiVersion: slackwater.io/v1alpha1\nkind: ColocationStrategy\nmetadata:\n  name: {name}\nspec:\n{said}"
    )
    return path
