"""Names of series become row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def numbered(ids: NDArray[np.int64]) -> tuple[Sequence[str], NDArray[np.intp]]:
    """The names in ascending order of the ids, and for each row the number of its name."""
    found, numbers = np.unique(ids, return_inverse=True)
    return [str(one) for one in found], numbers.astype(np.intp).reshape(-1)
