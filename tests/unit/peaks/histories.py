"""Histories as real ones are: gaps, late and doubled windows, limits of zero and limits that change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from reference_models import Row

from slackwater.peaks.port import Members

START = 1_700_006_400.0
"""A midnight."""
WORKLOADS = (0, 0, 1, 2, 3, 3, 4)
MACHINES = (0, 0, 0, 1, 1, 3, 3)
"""Of seven pods on four machines, of which one is empty; two pairs of pods share a workload."""
History = list[tuple[float, list[Row]]]

_LIMITS = st.sampled_from([0.0, 1.0, 500.0, 1000.0, 2500.5, 70_000.0, 9e6])
_USAGE = st.one_of(
    st.floats(0, 1), st.sampled_from([0.0, 1.0, 1.7, -0.1, math.nan]), st.floats(0, 0.2), st.floats(0.1, 0.4)
)
_STEPS = st.sampled_from([300.0, 300.0, 600.0, 1800.0, 3600.0, 3600.0, 7200.0, 86_400.0])


@st.composite
def histories(draw: st.DrawFn, *, late: bool = True, rounds: int = 14) -> History:
    """Rounds of windows of all pods; with `late`, some come again or with an earlier time."""
    limits = draw(st.lists(_LIMITS, min_size=7, max_size=7))
    count = draw(st.integers(1, rounds))
    history: History = []
    at = START
    for number in range(count):
        back = late and number > 0 and draw(st.integers(0, 9)) == 0
        at += draw(st.sampled_from([0.0, -300.0, -7200.0, -90_000.0])) if back else draw(_STEPS)
        if draw(st.integers(0, 9)) == 0:
            limits = draw(st.lists(_LIMITS, min_size=7, max_size=7))
        used = draw(st.lists(_USAGE, min_size=7, max_size=7))
        history.append((at, rows_of(limits, used)))
    return history


def rows_of(limits: Sequence[float], used: Sequence[float]) -> list[Row]:
    return [
        Row(machine, series, workload, limit, share * limit if limit else share)
        for series, (machine, workload, limit, share) in enumerate(zip(MACHINES, WORKLOADS, limits, used, strict=True))
    ]


def members_of(rows: Sequence[Row], machines: int = 4) -> Members:
    return Members(
        np.array([row.machine for row in rows], dtype=np.intp),
        np.array([row.series for row in rows], dtype=np.intp),
        np.array([row.workload for row in rows], dtype=np.intp),
        np.array([row.limit for row in rows], dtype=np.float64),
        np.zeros(machines),
    )


def feed(model: Any, history: History) -> None:
    for at, rows in history:
        model.fold(at, members_of(rows), np.array([row.usage for row in rows], dtype=np.float64))
