"""The history of quotas: figures of one resource over time, and how often they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

SMALL_TREE: Final = 20
SMALL_SECONDS, LARGE_SECONDS = 5, 60
"""A tree of up to SMALL_TREE quotas keeps a ledger per five seconds, a larger one per minute."""


@dataclass(frozen=True, slots=True)
class QuotaAmounts:
    """One quota in one resource: milli-cores of a CPU, else bytes or pieces."""

    used: int = 0
    runtime: int = 0
    requested: int = 0


@dataclass(frozen=True, slots=True)
class QuotaPoint:
    """The quotas of a tree at one time, by name."""

    at: datetime
    quotas: Mapping[str, QuotaAmounts]


def ledger_time(accounted_at: datetime, quotas: int) -> datetime:
    """Returns the round time under which a ledger is kept; a later one with the same replaces it."""
    seconds = SMALL_SECONDS if quotas <= SMALL_TREE else LARGE_SECONDS
    return datetime.fromtimestamp(accounted_at.timestamp() // seconds * seconds, UTC)
