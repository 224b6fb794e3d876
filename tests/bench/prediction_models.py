"""Peak models at fleet size: folded windows per second, time of all predictions, memory, and scaling.

30 pods per node, each with its own workload (the worst case), CPU and memory in two threads. A round is one window of
every pod of the fleet.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tests.bench.verdict import Scale, Target

from slackwater.peaks.port import KeptModel, Members
from slackwater.prediction.adapters.predictors.registry import DEFAULT, make_model, names

PODS = 30
SIZES = (1_000, 3_000, 10_000)
_START = 1_700_006_400.0
_WARM: Mapping[str, Mapping[str, Any]] = {DEFAULT: {"cold_hours": 2, "young_hours": 3}}
"""Short warm-up, because only a few hours are folded here; the cost is the same."""
RESOURCES = {"cpu": 4_000.0, "memory": 8.0 * 2**30}
_ROUND_SECONDS = 30.0
Numbers = np.ndarray[Any, np.dtype[np.float64]]


def measure(nodes: Sequence[int] = SIZES, rounds: int = 20) -> dict[str, Any]:
    """Measures the default model at every size, the others at the largest."""
    sizes = {str(count): _both(DEFAULT, count, rounds) for count in nodes}
    largest, smallest = sizes[str(max(nodes))], sizes[str(min(nodes))]
    rate, predicted = largest["updates_per_second"], largest["all_predictions_seconds"]
    by_node = predicted / max(nodes) / (smallest["all_predictions_seconds"] / min(nodes))
    kept = max(largest["bytes_per_workload"].values())
    return {
        "sizes": sizes,
        "other_models": {name: _both(name, max(nodes), 5) for name in names() if name != DEFAULT},
        "series_updates_per_second": rate,
        "all_predictions_seconds": predicted,
        "cost_per_node_largest_to_smallest": round(by_node, 2),
        "targets": (
            Target("updates", rate / 1e6, 10, "M/s", Scale.RATE),
            Target("all predictions", predicted, 1, "s", Scale.TIME),
            Target("a workload", kept, 1024, "bytes"),
            Target("memory", largest["rss_mib"], 1024, "MiB"),
            Target("cost of a node, largest to smallest fleet", round(by_node, 2), 1.5),
        ),
    }


def _both(name: str, nodes: int, rounds: int) -> dict[str, Any]:
    """CPU and memory in parallel."""
    models = {each: make_model(name, dict(_WARM.get(name, {})), each) for each in RESOURCES}  # type: ignore[arg-type] # keys are resources
    fleets = {each: _fleet(nodes, most) for each, most in RESOURCES.items()}
    with ThreadPoolExecutor(len(models)) as threads:

        def beside(work: Callable[[str], object]) -> float:
            began = time.perf_counter()
            list(threads.map(work, models))
            return time.perf_counter() - began

        beside(lambda each: _history(models[each], fleets[each]))
        for (
            model
        ) in models.values():  # touch all pages: memory that was never written is not allocated and fast to read
            model.restore(model.state())
        usage = {each: _usage(fleets[each], rounds) for each in models}
        taken = [
            beside(lambda each, n=n: _fold(models[each], fleets[each], usage[each][n], n))  # type: ignore[misc] # n is bound
            for n in range(rounds)
        ]
        hour = beside(lambda each: _fold(models[each], fleets[each], usage[each][0], 200))
        predictions = [beside(lambda each: _peaks(models[each], fleets[each])) for _ in range(3)]
        rss = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
        began = time.perf_counter()
        states = {each: model.state() for each, model in models.items()}
        saved = time.perf_counter() - began
    median = statistics.median(taken)
    size = {each: sum(array.nbytes for array in state.values()) for each, state in states.items()}
    series = len(models) * nodes * (PODS + 1)
    return {
        "series": series,
        "round_seconds": round(median, 4),
        "round_that_begins_an_hour_seconds": round(hour, 4),
        "updates_per_second": round(series / median),
        "all_predictions_seconds": round(min(predictions), 4),
        "rss_mib": round(rss),
        "copy_of_state_seconds": round(saved, 3),
        "bytes_per_workload": {each: round(bytes_ / nodes / PODS, 1) for each, bytes_ in size.items()},
    }


def _fleet(nodes: int, most: float) -> Members:
    rng = np.random.default_rng(nodes)
    count = nodes * PODS
    return Members(
        machine=np.repeat(np.arange(nodes), PODS),
        series=rng.permutation(count),
        workload=rng.permutation(count),
        limit=most * rng.choice([0.125, 0.25, 0.5, 1.0], count),
        capacity=np.full(nodes, most * PODS),
    )


def _usage(members: Members, rounds: int) -> list[Numbers]:
    rng = np.random.default_rng(rounds)
    kinds = [members.limit * rng.random(len(members.limit)) ** 3 for _ in range(min(rounds, 5))]
    return [kinds[number % len(kinds)] for number in range(rounds)]


def _history(model: KeptModel, members: Members) -> None:
    """Folds a few hours in steps of a quarter of an hour."""
    for number, usage in enumerate(_usage(members, 5) * 5):
        model.fold(_START + 900.0 * number, members, usage)


def _fold(model: KeptModel, members: Members, usage: Numbers, number: int) -> None:
    model.fold(_START + 7 * 3600.0 + _ROUND_SECONDS * number, members, usage)


def _peaks(model: KeptModel, members: Members) -> None:
    model.peaks(_START + 9 * 3600.0, members)
