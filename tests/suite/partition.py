"""Divides test files among lanes. The same files and durations give the same lanes and the same order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.suite.tiers import ROOT

DURATIONS: Final = Path(__file__).with_name("durations.json")
"""Seconds per file, of those that take more than one. Balance depends on it, and nothing else."""
UNRECORDED_SECONDS: Final = 0.5
TOGETHER: Final = ("tests/architecture/", "tests/kubernetes/")
"""Folders of which one lane takes all files: they share the parsed tree, or a control plane."""
APART: Final = "tests/kubernetes/test_helm_on_api_server.py"
"""A file of such a folder that has a control plane of its own."""


def recorded_seconds() -> dict[str, float]:
    """Returns the recorded seconds by file."""
    durations: dict[str, float] = json.loads(DURATIONS.read_text())
    return durations


def partition(files: Iterable[str], seconds: Mapping[str, float], lanes: int) -> list[list[str]]:
    """Returns the files of each lane, the longest lane first. No lane is empty.

    The longest group goes to the lane with the least to do, then the next one. Within a lane the order is that of the
    paths.
    """
    groups: dict[str, list[str]] = {}
    for file in sorted(files):
        groups.setdefault(_group(file), []).append(file)
    weights = {group: sum(seconds.get(file, UNRECORDED_SECONDS) for file in groups[group]) for group in groups}
    loads, parts = [0.0] * lanes, [list[str]() for _ in range(lanes)]
    for group in sorted(groups, key=lambda group: (-weights[group], group)):
        lane = loads.index(min(loads))
        loads[lane] += weights[group]
        parts[lane] += groups[group]
    longest_first = sorted(range(lanes), key=lambda lane: -loads[lane])
    return [sorted(parts[lane]) for lane in longest_first if parts[lane]]


def _group(file: str) -> str:
    if file == APART:
        return file
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def record(seconds: Mapping[str, float], files: Sequence[str]) -> None:
    """Replaces the recorded seconds of these files."""
    rounded = {file: round(seconds.get(file, 0.0), 1) for file in files}
    merged = sorted((recorded_seconds() | rounded).items())
    lasting = {file: value for file, value in merged if value > 1 and (ROOT / file).exists()}
    DURATIONS.write_text(json.dumps(lasting, indent=0) + "\n")
