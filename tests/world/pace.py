"""How often the processes of a seed work: its intervals, by the length of its history.

What a run costs is what its intervals let happen. In ten virtual minutes most faults meet the same code at one report
in ten seconds as at one in two, so most long histories have the longer intervals, and some keep the short ones. In a
history of a minute, a window or a lease of a minute would only begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

LONG_SECONDS, SHORT_SECONDS = 300.0, 60.0
"""Histories of at least the one are long, of less than the other short: between them the intervals stay as drawn."""
SMALL_NODES, SMALL_SECONDS = 2, 45.0
"""Size of the seeds of `make test-all`."""
SPARSE_SHARE = 0.85
"""Of the long histories."""
BRISK_SHARE = 0.9
"""Of the short histories."""
Settings = Mapping[str, Mapping[str, Any]]


def paced(settings: Settings, seed: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Returns the settings with the intervals of a history of so many virtual seconds. A random source of its own
    leaves all else that the seed draws as it was."""
    rng = Random(f"pace of {seed}")
    draws = {name: dict(own) for name, own in settings.items()}
    if seconds >= LONG_SECONDS and rng.random() < SPARSE_SHARE:
        _make_sparse(draws, rng)
    elif seconds < SHORT_SECONDS and rng.random() < BRISK_SHARE:
        _make_brisk(draws)
    return draws


def _make_brisk(settings: dict[str, dict[str, Any]]) -> None:
    """Shorter windows, so that they close during the faults and the world settles sooner; and no heartbeats and looks
    at every node each second, of which most of the time would be spent in a world that settles."""
    ingestion, ownership = settings["ingestion"], settings["ownership"]
    ingestion["window_seconds"] = min(30, ingestion["window_seconds"])
    ingestion["liveness_tick_seconds"] = 5.0
    if ownership["beat"] < 2.0:
        ownership.update(beat=2 * ownership["beat"], ttl=2 * ownership["ttl"])


def _make_sparse(settings: dict[str, dict[str, Any]], rng: Random) -> None:
    report = rng.choice((10.0, 15.0, 15.0))
    beat = rng.choice((5.0, 10.0, 10.0))
    ingestion, ensurance = settings["ingestion"], settings["ensurance"]
    settings["ownership"].update(beat=beat, ttl=beat * 3)
    settings["agent"].update(report_seconds=report, sample_seconds=report / 2)
    ingestion["report_interval_seconds"] = report
    ingestion["window_seconds"] = rng.choice((30, 60, 60))
    ingestion["liveness_tick_seconds"] = rng.choice((5.0, 10.0))
    settings["prediction"].update(snapshot_seconds=rng.choice((30.0, 120.0, 120.0)), histogram_update_seconds=30.0)
    settings["colocation"].update(age_check_seconds=10.0, full_pass_seconds=60.0)
    ensurance["lease_seconds"] = max(ensurance["lease_seconds"], rng.choice((15.0, 30.0)))
    ensurance["silent_seconds"] = 60.0
