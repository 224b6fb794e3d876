"""Why a claim does not fit into its quota and the quotas above it.

Source: shared/facts/koordinator-quota-scheduling.md 1.7; the dimensions that a claim does not ask for never refuse it,
neither in its own quota nor above (the peer looks at all of them in the claim's own quota, docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType

from slackwater.fairshare.tree import Amounts
from slackwater.model.records import record


class QuotaLimit(StrEnum):
    """Which figure of a quota a claim ran into."""

    RUNTIME = "runtime"
    MAX = "max"
    MIN = "min"
    """Of claims that cannot be taken back: they never stand on what is borrowed."""
    TOTAL = "total"
    """What the pool has."""


@record(frozen=True, slots=True)
class LimitExcess:
    """Why a claim is not admitted: used + requested is more than the limit."""

    quota: str
    limit: QuotaLimit
    resource: str
    used: int
    requested: int
    allowed: int


def shortages(lacking: Sequence[LimitExcess], also: Amounts = MappingProxyType({})) -> dict[str, int]:
    """Returns the largest shortage of each resource, of these excesses and these amounts."""
    found = dict(also)
    for excess in lacking:
        short = excess.used + excess.requested - excess.allowed
        found[excess.resource] = max(found.get(excess.resource, 0), short)
    return found
