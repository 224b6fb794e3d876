"""Evictions that disruption budgets refuse, as the service `kubernetes` answers them while the API server refuses.

A budget selects a share of the pods, by their uid. Ensurance's evictions do not wait: they are refused at once. Those
of moves wait until the budget allows them or their time is over; one of a pod under two budgets is refused for good.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

BUDGET_REFUSAL: Final = "a disruption budget allows no eviction now"
SHARES: Final = 1000
TWO_BUDGETS: Final = 3
"""One of so many of the selected pods is under two budgets."""


def is_selected(uid: str, share: float) -> bool:
    """Whether a budget that allows nothing selects the pod."""
    return crc32(uid.encode()) % SHARES < share * SHARES


def is_of_two(uid: str) -> bool:
    """Whether a second budget selects it, too."""
    return crc32(uid.encode()[::-1]) % TWO_BUDGETS == 0
