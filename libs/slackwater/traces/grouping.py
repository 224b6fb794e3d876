"""Downsamples series for display."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def grouped(values: NDArray[np.floating], stride: int, by: Callable[..., NDArray[np.float64]]) -> NDArray[np.float64]:
    """One value for every `stride` of them; the last group may be smaller."""
    return np.array([by(values[at : at + stride]) for at in range(0, len(values), stride)], dtype=np.float64)
