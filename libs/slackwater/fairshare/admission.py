"""Whether a claim fits into its quota and the quotas above it.

Source: shared/facts/koordinator-quota-scheduling.md 1.7; the dimensions that a claim does not ask for never refuse it,
neither in its own quota nor above (the peer looks at all of them in the claim's own quota, docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
class QuotaAccount:
    """One quota on the way to the root, at the moment of the decision."""

    quota: str
    used: Amounts
    runtime: Amounts
    maximum: Amounts
    minimum: Amounts
    non_preemptible_used: Amounts


@record(frozen=True, slots=True)
class LimitExcess:
    """Why a claim is not admitted: used + requested is more than the limit."""

    quota: str
    limit: QuotaLimit
    resource: str
    used: int
    requested: int
    allowed: int


def excesses(
    request: Amounts, path: Sequence[QuotaAccount], *, non_preemptible: bool = False, elastic: bool = True
) -> list[LimitExcess]:
    """Returns everything that refuses the claim; empty: it is admitted. `path` is its quota first, then its ancestors.

    A resource that a limit does not name is not limited. `elastic` False compares with the max instead of the runtime.
    """
    found: list[LimitExcess] = []
    for account in path:
        found += _beyond(account.quota, QuotaLimit.MAX, account.used, request, account.maximum)
        if elastic:
            runtime = {key: value for key, value in account.runtime.items() if key in account.maximum}
            found += _beyond(account.quota, QuotaLimit.RUNTIME, account.used, request, runtime)
        if non_preemptible:
            bounded = {key: account.minimum.get(key, 0) for key in account.maximum}
            found += _beyond(account.quota, QuotaLimit.MIN, account.non_preemptible_used, request, bounded)
    return found


def _beyond(
    quota: str, limit: QuotaLimit, used: Amounts, request: Amounts, allowed: Mapping[str, int]
) -> list[LimitExcess]:
    return [
        LimitExcess(quota, limit, resource, used.get(resource, 0), amount, allowed[resource])
        for resource, amount in sorted(request.items())
        if amount > 0 and resource in allowed and used.get(resource, 0) + amount > allowed[resource]
    ]


def shortages(lacking: Sequence[LimitExcess], also: Amounts = MappingProxyType({})) -> dict[str, int]:
    """Returns the largest shortage of each resource, of these excesses and these amounts."""
    found = dict(also)
    for excess in lacking:
        short = excess.used + excess.requested - excess.allowed
        found[excess.resource] = max(found.get(excess.resource, 0), short)
    return found
