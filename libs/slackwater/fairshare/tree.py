"""A quota tree: requests climb to the root, runtime comes down.

Source: shared/facts/koordinator-quota-scheduling.md 1.3 and 1.4, issue 26. Amounts are integers by resource name: CPU
in milli-cores (`is_cpu`), all others in their base unit. A resource that a max does not name is unlimited, and shared,
lent and given back as any other (docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from slackwater.fairshare.level_share import Sharer, Sharing, share
from slackwater.fairshare.min_scaling import ScaledChild, scale_mins
from slackwater.model.quantities import format_cores, format_memory
from slackwater.model.records import record

Amounts = Mapping[str, int]
ROOT = "root"
"""The parent of those that name none; it has no limits of its own."""


@record(frozen=True, slots=True)
class Quota:
    """What is declared of a quota, and what its own claims request and use (children not included)."""

    name: str
    parent: str = ROOT
    minimum: Amounts = field(default_factory=dict)
    maximum: Amounts = field(default_factory=dict)
    weight: Amounts = field(default_factory=dict)
    """Empty, or 0 in all: the max is the weight."""
    guaranteed: Amounts = field(default_factory=dict)
    lends: bool = True
    scales: bool = True
    """Whether its min may be scaled down where the mins of a level do not fit."""
    is_parent: bool = False
    """Whether it may have children; claims go to quotas that may not."""
    tree: str = ""
    own_request: Amounts = field(default_factory=dict)
    own_used: Amounts = field(default_factory=dict)

    @property
    def shared_weight(self) -> Amounts:
        return self.weight if any(self.weight.values()) else self.maximum

    def weight_of(self, resource: str, total: int) -> int:
        """Returns its weight in one dimension. A resource without a max weighs as much as the parent has of it."""
        return self.shared_weight.get(resource, 0 if resource in self.maximum else total)

    @property
    def entitled(self) -> Amounts:
        """Its min or its guaranteed amount, whichever is more, before any scaling."""
        keys = {*self.minimum, *self.guaranteed}
        return {key: max(self.minimum.get(key, 0), self.guaranteed.get(key, 0)) for key in keys}


@record(frozen=True, slots=True)
class QuotaDemand:
    """What a quota asks for, its descendants included."""

    child_request: Amounts
    """Own claims and what the children ask for, each cut to its max."""
    request: Amounts
    """As child_request, but at least the min where the quota does not lend."""
    limited: Amounts
    """What the parent sees: the request cut to the max."""
    used: Amounts


@record(frozen=True, slots=True)
class QuotaLevel:
    """The children of one parent in one tree: everything that `why quota/NAME` shows."""

    parent: str
    total: Amounts
    """The parent's runtime; the tree's total at the root."""
    minimum: Mapping[str, Amounts]
    """In force, by child: after scaling."""
    sharing: Mapping[str, Sharing]
    """By resource."""


@record(frozen=True, slots=True)
class QuotaLedger:
    """A tree at one moment."""

    demand: Mapping[str, QuotaDemand]
    levels: Mapping[str, QuotaLevel]
    """By parent; a quota without children has none."""
    runtime: Mapping[str, Amounts]


class BrokenTree(ValueError):
    """A quota whose parent is not there, or that is its own ancestor. `name` is the quota."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"quota {name}: {why}")
        self.name = name


def is_cpu(resource: str) -> bool:
    """Whether amounts of a resource are milli-cores: `cpu`, `batch-cpu`, `kubernetes.io/mid-cpu`."""
    return resource == "cpu" or resource.endswith("-cpu")


def amount_text(resource: str, amount: int) -> str:
    """Returns an amount as people write it: cores, binary units of memory, pieces."""
    if is_cpu(resource):
        return format_cores(amount)
    return format_memory(amount) if resource.endswith("memory") else str(amount)


def ledger(quotas: Sequence[Quota], total: Amounts) -> QuotaLedger:
    """Returns demand and runtime of every quota; `total` is what the pool has for this tree.

    The order of `quotas` does not matter. Raises BrokenTree.
    """
    children = children_of(quotas)
    demand: dict[str, QuotaDemand] = {}
    for quota in reversed(top_down(quotas)):
        demand[quota.name] = demand_of(quota, [demand[child.name] for child in children.get(quota.name, ())])
    runtime: dict[str, Amounts] = {ROOT: dict(total)}
    levels: dict[str, QuotaLevel] = {}
    for parent in (ROOT, *(quota.name for quota in top_down(quotas))):
        if parent in children:
            levels[parent] = share_level(parent, runtime[parent], children[parent], demand)
            runtime |= level_runtime(levels[parent], children[parent])
    del runtime[ROOT]
    return QuotaLedger(demand, levels, runtime)


def entitlements(quotas: Sequence[Quota], total: Amounts) -> dict[str, Amounts]:
    """As `batched.entitlements`, without its limit on the size of numbers. Raises BrokenTree."""
    children = children_of(quotas)
    found: dict[str, Amounts] = {ROOT: dict(total)}
    for parent in (ROOT, *(quota.name for quota in top_down(quotas))):
        below = children.get(parent, ())
        scaled = scale_mins(found[parent], [ScaledChild(child.name, child.minimum, child.scales) for child in below])
        for child in below:
            keys = {*child.minimum, *child.guaranteed}
            found[child.name] = {key: max(scaled[child.name].get(key, 0), child.guaranteed.get(key, 0)) for key in keys}
    del found[ROOT]
    return found


def children_of(quotas: Sequence[Quota]) -> dict[str, list[Quota]]:
    """Returns the children of each parent by name, sorted by theirs."""
    found: dict[str, list[Quota]] = {}
    for quota in sorted(quotas, key=lambda quota: quota.name):
        found.setdefault(quota.parent, []).append(quota)
    return found


def top_down(quotas: Sequence[Quota]) -> list[Quota]:
    """Returns parents before their children. Raises BrokenTree for an unknown parent or a circle."""
    children = children_of(quotas)
    known = {quota.name for quota in quotas}
    for quota in quotas:
        if quota.parent != ROOT and quota.parent not in known:
            raise BrokenTree(quota.name, f"its parent {quota.parent} is not there")
    found, at = list(children.get(ROOT, ())), 0
    while at < len(found):
        found += children.get(found[at].name, ())
        at += 1
    if len(found) < len(quotas):
        name = min(known - {quota.name for quota in found})
        raise BrokenTree(name, "it is its own ancestor")
    return found


def path_to_root(parents: Mapping[str, str], name: str) -> Iterator[str]:
    """Yields the quota, its parent and so on; the root last. `parents` is by name. Raises BrokenTree for a circle."""
    seen: set[str] = set()
    while True:
        if name in seen:
            raise BrokenTree(name, "it is its own ancestor")
        seen.add(name)
        yield name
        if name not in parents:
            return
        name = parents[name]


def limited(request: Amounts, maximum: Amounts) -> dict[str, int]:
    """Returns the request, cut where the max names the resource."""
    return {resource: min(amount, maximum.get(resource, amount)) for resource, amount in request.items()}


def added(*amounts: Amounts) -> dict[str, int]:
    """Returns the sum by resource; a resource that is nowhere is not in it."""
    found: dict[str, int] = {}
    for each in amounts:
        for resource, amount in each.items():
            found[resource] = found.get(resource, 0) + amount
    return found


def demand_of(quota: Quota, children: Sequence[QuotaDemand]) -> QuotaDemand:
    """Returns what a quota asks for with its children."""
    child_request = added(quota.own_request, *(child.limited for child in children))
    request = dict(child_request)
    if not quota.lends:
        for resource, amount in quota.minimum.items():
            request[resource] = max(request.get(resource, 0), amount)
    used = added(quota.own_used, *(child.used for child in children))
    return QuotaDemand(child_request, request, limited(request, quota.maximum), used)


def share_level(
    parent: str, total: Amounts, children: Sequence[Quota], demand: Mapping[str, QuotaDemand]
) -> QuotaLevel:
    """Returns how a parent's total is shared among its children, sorted by name; `demand` has theirs by name."""
    minimum = scale_mins(total, [ScaledChild(child.name, child.minimum, child.scales) for child in children])
    named = {resource for child in children for resource in (*child.maximum, *demand[child.name].limited)}
    resources = sorted({*total, *named})
    sharing = {
        resource: share(
            total.get(resource, 0),
            [
                Sharer(
                    name=child.name,
                    minimum=minimum[child.name].get(resource, 0),
                    request=demand[child.name].limited.get(resource, 0),
                    weight=child.weight_of(resource, total.get(resource, 0)),
                    lends=child.lends,
                    guaranteed=child.guaranteed.get(resource, 0),
                )
                for child in children
            ],
        )
        for resource in resources
    }
    return QuotaLevel(parent, total, minimum, sharing)


def level_runtime(level: QuotaLevel, children: Sequence[Quota]) -> dict[str, Amounts]:
    """Returns the runtime of each child of a level."""
    return {
        child.name: {resource: sharing.runtime[child.name] for resource, sharing in level.sharing.items()}
        for child in children
    }
