"""What a change of quotas would do to each of them: runtime before and after, beside what is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slackwater.fairshare.tree import Amounts, BrokenTree, Quota, QuotaLedger, ledger
from slackwater.model.records import record


@record(frozen=True, slots=True)
class RuntimeChange:
    """One quota in one resource. None: it is not there before, or not there after."""

    quota: str
    resource: str
    before: int | None
    after: int | None
    used: int

    @property
    def owed(self) -> int:
        """What its claims use beyond the runtime that it would have: to be given back."""
        return max(0, self.used - (self.after or 0))


def runtime_changes(
    before: Sequence[Quota], after: Sequence[Quota], totals: Mapping[str, Amounts]
) -> Sequence[RuntimeChange]:
    """Returns the quotas and resources whose runtime changes, by name. Quotas carry what they request and use."""
    old, new = _ledgers(before, totals), _ledgers(after, totals)
    return tuple(_changes(old, new))


def _changes(old: QuotaLedger, new: QuotaLedger) -> Iterator[RuntimeChange]:
    for quota in sorted(old.runtime.keys() | new.runtime.keys()):
        had, has = old.runtime.get(quota, {}), new.runtime.get(quota, {})
        demand = new.demand.get(quota) or old.demand[quota]
        for resource in sorted(had.keys() | has.keys()):
            if had.get(resource) != has.get(resource):
                used = demand.used.get(resource, 0)
                yield RuntimeChange(quota, resource, had.get(resource), has.get(resource), used)


def _ledgers(quotas: Sequence[Quota], totals: Mapping[str, Amounts]) -> QuotaLedger:
    """The ledgers of all trees as one; a tree that is broken has none."""
    merged = QuotaLedger({}, {}, {})
    for tree in sorted({quota.tree for quota in quotas}):
        try:
            of_tree = ledger([quota for quota in quotas if quota.tree == tree], totals.get(tree, {}))
        except BrokenTree:
            continue
        levels = {f"{tree}/{parent}": level for parent, level in of_tree.levels.items()}
        merged = QuotaLedger(
            {**merged.demand, **of_tree.demand}, {**merged.levels, **levels}, {**merged.runtime, **of_tree.runtime}
        )
    return merged
