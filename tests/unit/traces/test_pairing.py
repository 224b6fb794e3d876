"""CPU and memory of a trace, brought to the same series and the same time."""

from __future__ import annotations

import numpy as np
import pytest

from slackwater.model.errors import InvalidInput
from slackwater.traces.grid import Samples, grid
from slackwater.traces.options import TraceResource
from slackwater.traces.pairs import paired
from slackwater.traces.trace import CELL_SECONDS, Trace


def trace(resource: TraceResource, rows: list[tuple[str, int, float]]) -> Trace:
    """(name, cell, usage)."""
    names = sorted({name for name, *_ in rows})
    samples = Samples(
        np.array([names.index(name) for name, *_ in rows], np.intp),
        np.array([cell * CELL_SECONDS for _, cell, _ in rows], np.int64),
        np.array([usage for *_, usage in rows], np.float64),
        np.full(len(rows), 100.0),
    )
    return grid(samples, names, [f"of-{name[0]}" for name in names], title="made", resource=resource)


CPU = trace(TraceResource.CPU, [("a1", 0, 1), ("a1", 3, 2), ("a2", 1, 3), ("a2", 3, 4), ("b", 0, 5), ("b", 3, 5)])


def test_the_same_series_and_cells_are_left_as_they_are() -> None:
    memory = trace(TraceResource.MEMORY, [(name, cell, 7) for name in ("a1", "a2", "b") for cell in (0, 3)])
    found = paired({TraceResource.CPU: CPU, TraceResource.MEMORY: memory})
    assert found[TraceResource.CPU].usage is CPU.usage
    assert found[TraceResource.CPU].present.tolist() == found[TraceResource.MEMORY].present.tolist()
    assert not found[TraceResource.MEMORY].present[0, 1], "absent in one is absent in both"


def test_what_only_one_has_is_left_out() -> None:
    memory = trace(TraceResource.MEMORY, [("b", 1, 7), ("b", 2, 8), ("a2", 1, 9), ("a2", 5, 9), ("z", 1, 1)])
    found = paired({TraceResource.CPU: CPU, TraceResource.MEMORY: memory})
    for each in found.values():
        assert list(each.names) == ["a2", "b"]
        assert each.start_seconds == CELL_SECONDS
        assert each.cells == 3
        assert each.workload.tolist() == [0, 1]
    assert found[TraceResource.CPU].usage[:, 0].tolist() == [3, 3, 4]
    assert found[TraceResource.MEMORY].usage[:, 1].tolist() == [7, 8, 0]


def test_nothing_in_common_is_said() -> None:
    memory = trace(TraceResource.MEMORY, [("z", 0, 1)])
    with pytest.raises(InvalidInput, match="cpu of 3 series and memory of 1 series have no series or no time"):
        paired({TraceResource.CPU: CPU, TraceResource.MEMORY: memory})
