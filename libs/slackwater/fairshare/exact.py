"""Products of two 64-bit integers divided by a third, exactly, for whole arrays.

NumPy has no 128-bit integers. The quotient is estimated in extended precision, at most a few units off; the remainder
is then exact in wrapping 64-bit arithmetic, because it is small, and corrects the quotient.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

DIVISOR_LIMIT = 2**60
"""Above it, the remainder of an estimate that is off by a few units might not fit into 64 bits."""
EXTENDED = np.finfo(np.longdouble).nmant >= 63
"""Whether this machine's long double is wide enough (x86-64: 63 bits, AArch64 Linux: 112)."""


def floor_mul_div(left: Ints, right: Ints, divisor: Ints) -> tuple[Ints, Ints]:
    """Returns quotient and remainder of left * right / divisor.

    All >= 0, divisor in (0, DIVISOR_LIMIT), and right <= divisor, so that the quotient is at most `left`.
    """
    estimate = left.astype(np.longdouble) * right.astype(np.longdouble) / divisor.astype(np.longdouble)
    quotient = estimate.astype(np.int64)
    with np.errstate(over="ignore"):
        remainder = left * right - quotient * divisor
        correction = remainder // divisor
        return quotient + correction, remainder - correction * divisor
