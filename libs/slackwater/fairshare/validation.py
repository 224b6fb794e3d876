"""What is refused of a quota before it is stored.

Source: shared/facts/koordinator-quota-scheduling.md 1.10, issue 26. A move that would make a quota its own ancestor is
refused (the peer misses it), and every change is checked, also one of the weight alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from slackwater.fairshare.tree import ROOT, Amounts, BrokenTree, Quota, added, amount_text, path_to_root
from slackwater.model.records import record

SYSTEM = "system"
"""What pods of the system itself request. Generated: nothing claims it, and it is never reclaimed."""
RESERVED = (ROOT, SYSTEM, "default")


class QuotaRule(StrEnum):
    """What a quota must keep to."""

    NAME = "name"
    AMOUNT = "amount"
    MIN_WITHIN_MAX = "min_within_max"
    GUARANTEED_WITHIN_MIN = "guaranteed_within_min"
    PARENT = "parent"
    CYCLE = "cycle"
    TREE = "tree"
    KEYS = "keys"
    MIN_SUM = "min_sum"
    IS_PARENT = "is_parent"
    IN_USE = "in_use"


@record(frozen=True, slots=True)
class QuotaRefusal:
    """One rule that a document breaks: the field, and a text with the numbers and what to do."""

    rule: QuotaRule
    field: str
    message: str


def refusals(quotas: Mapping[str, Quota], new: Quota, claims: Mapping[str, int]) -> list[QuotaRefusal]:
    """Returns what is wrong with `new`, whether it is created or replaces the quota of its name.

    `quotas` is what is in force by name; `claims` counts each quota's own claims, admitted or queued.
    """
    return [
        *_alone(new),
        *_above(quotas, new, claims),
        *_below(quotas, new),
        *_changed(quotas, new, claims),
    ]


def deletion_refusals(quotas: Mapping[str, Quota], name: str, claims: Mapping[str, int]) -> list[QuotaRefusal]:
    """Returns what stands against deleting a quota."""
    children = sorted(quota.name for quota in quotas.values() if quota.parent == name)
    found = []
    if name in RESERVED:
        found.append(QuotaRefusal(QuotaRule.NAME, "metadata.name", f"{name} belongs to the system and is not deleted"))
    if children:
        told = f"quota {name} has {len(children)} children ({', '.join(children[:3])}): delete or move them first"
        found.append(QuotaRefusal(QuotaRule.IN_USE, "metadata.name", told))
    if claims.get(name):
        told = f"quota {name} has {claims[name]} claims: release them first"
        found.append(QuotaRefusal(QuotaRule.IN_USE, "metadata.name", told))
    return found


def _alone(new: Quota) -> Iterator[QuotaRefusal]:
    if new.name == ROOT:
        yield QuotaRefusal(QuotaRule.NAME, "metadata.name", f"{ROOT} is generated from what the pool has; name another")
    if new.name == SYSTEM:
        told = f"{SYSTEM} is what the pods of the system itself request; it comes off the total, name another"
        yield QuotaRefusal(QuotaRule.NAME, "metadata.name", told)
    declared = (new.minimum, new.maximum, new.weight, new.guaranteed)
    for field, amounts in zip(("spec.min", "spec.max", "spec.sharedWeight", "spec.guaranteed"), declared, strict=True):
        for resource, amount in sorted(amounts.items()):
            if amount < 0:
                yield QuotaRefusal(
                    QuotaRule.AMOUNT, f"{field}.{resource}", f"{amount_text(resource, amount)} is below 0"
                )
    yield from _within(new)


def _within(new: Quota) -> Iterator[QuotaRefusal]:
    for resource, amount in sorted(new.minimum.items()):
        if resource not in new.maximum:
            told = f"min names {resource} ({amount_text(resource, amount)}), max does not: add it to spec.max"
            yield QuotaRefusal(QuotaRule.MIN_WITHIN_MAX, f"spec.max.{resource}", told)
        elif amount > new.maximum[resource]:
            told = (
                f"min {amount_text(resource, amount)} is more than max {amount_text(resource, new.maximum[resource])}"
            )
            yield QuotaRefusal(QuotaRule.MIN_WITHIN_MAX, f"spec.min.{resource}", told)

    for resource, amount in sorted(new.guaranteed.items()):
        if amount > (allowed := new.minimum.get(resource, 0)):
            told = (
                f"guaranteed {amount_text(resource, amount)} is more than min {amount_text(resource, allowed)}:"
                " it is what stays of a min that is scaled down"
            )
            yield QuotaRefusal(QuotaRule.GUARANTEED_WITHIN_MIN, f"spec.guaranteed.{resource}", told)


def _above(quotas: Mapping[str, Quota], new: Quota, claims: Mapping[str, int]) -> Iterator[QuotaRefusal]:
    if new.parent == ROOT:
        return
    parent = quotas.get(new.parent) if new.parent != new.name else new
    if parent is None:
        yield QuotaRefusal(QuotaRule.PARENT, "spec.parent", f"there is no quota {new.parent}: create it first")
        return
    if _circular(quotas, new):
        told = f"{new.parent} is below {new.name}, or is it: a quota cannot be its own ancestor"
        yield QuotaRefusal(QuotaRule.CYCLE, "spec.parent", told)
        return
    if not parent.is_parent:
        yield QuotaRefusal(
            QuotaRule.PARENT, "spec.parent", f"quota {parent.name} may not have children: set its isParent"
        )
    if parent.tree != new.tree:
        told = f"tree {new.tree!r} is not its parent's, {parent.tree!r}"
        yield QuotaRefusal(QuotaRule.TREE, "spec.tree", told)
    yield from _keys(new, parent, "spec")
    siblings = [quota for quota in quotas.values() if quota.parent == parent.name and quota.name != new.name]
    yield from _sum(parent, added(new.minimum, *(quota.minimum for quota in siblings)), "spec.min")


def _below(quotas: Mapping[str, Quota], new: Quota) -> Iterator[QuotaRefusal]:
    children = sorted((quota for quota in quotas.values() if quota.parent == new.name), key=lambda quota: quota.name)
    if children and not new.is_parent:
        told = f"quota {new.name} has {len(children)} children: move or delete them first"
        yield QuotaRefusal(QuotaRule.IS_PARENT, "spec.isParent", told)
    for child in children:
        if child.tree != new.tree:
            yield QuotaRefusal(
                QuotaRule.TREE, "spec.tree", f"tree {new.tree!r} is not that of its child {child.name}, {child.tree!r}"
            )
        yield from _keys(child, new, f"child {child.name}: spec")
    if children:
        yield from _sum(new, added(*(child.minimum for child in children)), "spec.min")


def _changed(quotas: Mapping[str, Quota], new: Quota, claims: Mapping[str, int]) -> Iterator[QuotaRefusal]:
    old = quotas.get(new.name)
    if old is not None and old.tree != new.tree:
        yield QuotaRefusal(QuotaRule.TREE, "spec.tree", f"a quota stays in its tree: {old.tree!r}, not {new.tree!r}")
    if new.is_parent and claims.get(new.name):
        told = (
            f"quota {new.name} has {claims[new.name]} claims of its own, a parent has none: release or move them first"
        )
        yield QuotaRefusal(QuotaRule.IS_PARENT, "spec.isParent", told)


def _keys(child: Quota, parent: Quota, field: str) -> Iterator[QuotaRefusal]:
    for name, below, above in (("max", child.maximum, parent.maximum), ("min", child.minimum, parent.minimum)):
        for resource in sorted(set(below) - set(above)):
            told = (
                f"{resource} of {child.name} is not in the {name} of its parent {parent.name}: add it there, or drop it"
            )
            yield QuotaRefusal(QuotaRule.KEYS, f"{field}.{name}.{resource}", told)


def _sum(parent: Quota, minimum: Amounts, field: str) -> Iterator[QuotaRefusal]:
    for resource, amount in sorted(minimum.items()):
        if amount > (allowed := parent.minimum.get(resource, 0)):
            told = (
                f"the children of {parent.name} are promised {amount_text(resource, amount)} {resource},"
                f" its own min is {amount_text(resource, allowed)}"
            )
            yield QuotaRefusal(QuotaRule.MIN_SUM, f"{field}.{resource}", told)


def _circular(quotas: Mapping[str, Quota], new: Quota) -> bool:
    parents = {quota.name: quota.parent for quota in quotas.values()} | {new.name: new.parent}
    try:
        list(path_to_root(parents, new.name))
    except BrokenTree:
        return True
    return False
