"""ElasticQuota and ElasticQuotaProfile as ElasticQuota and QuotaProfile.

The peer's quotas have labels and annotations for most of what is a field here. Its built-in quotas are `root`,
`default` and `system` here; `root` and `system` are generated. The peer's default quota is outside of its tree, and its
max is beyond any cluster: as a weight, which it is here where none is written, that would leave nothing to the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from slackwater.fairshare.documents import MOST_BYTES, MOST_CORES, least_weight
from slackwater.fairshare.tree import ROOT, is_cpu
from slackwater.koordinator.conversion_report import ConvertedDocument, ConvertedItem, ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import SourceObject, document_name, json_object, mapping_of, texts_of
from slackwater.resources.names import CLUSTER
from slackwater.waterline.policies.quantity import quantity

KIND: Final = "ElasticQuota"
PREFIX: Final = "quota.scheduling.koordinator.sh/"
BUILT_IN: Final[Mapping[str, str]] = {"koordinator-root-quota": ROOT, "koordinator-default-quota": CLUSTER}
SYSTEM: Final = "koordinator-system-quota"
POOL_LABEL: Final = "slackwater.io/node-pool"
LENT: Final[Mapping[str, str]] = {
    f"{domain}/{name}": name
    for domain in ("kubernetes.io", "slackwater.io", "koordinator.sh")
    for name in ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
}
"""Extended resources and their name in quotas; their CPU is in milli-cores."""
OUTPUTS: Final = frozenset(
    {
        *("runtime", "request", "child-request", "guaranteed", "allocated", "non-preemptible-request"),
        *("non-preemptible-used", "total-resource", "unschedulable-resource"),
    }
)
"""Annotations that the peer writes itself."""
READ: Final = frozenset(
    {"parent", "is-parent", "is-root", "allow-lent-resource", "tree-id", "shared-weight", "profile"}
)
WITHOUT_COUNTERPART: Final[Mapping[str, str]] = {
    "namespaces": "claims name their quota; namespaces are not bound to one",
    "admission": "admission is by what is left of max and of the parents",
    "max-strict-check-resource-keys": "max may be lowered below what is used; the excess is reclaimed",
    "allow-force-update": "every change is checked",
    "ignore-default-tree": "a tree has the nodes of its QuotaProfile",
}
SYSTEM_IS_GENERATED: Final = "it is generated of what pods of the system request, which comes off the total"
DEFAULT_WEIGHT: Final = "it shares with the other quotas, so it has the least weight; max and min are kept"
POOLS_OF_TREES: Final = "the agents of its nodes must report the pool: SLACKWATER_AGENT_POOL={pool}"


def quotas(objects: Sequence[SourceObject], profiles: Sequence[SourceObject]) -> Iterator[ConvertedItem]:
    """Yields the documents of all quotas and profiles, parents before children."""
    trees: dict[str, str] = {}
    yield from _profiles(profiles, trees)
    names: dict[str, str] = dict(BUILT_IN)
    roots = {one.name for one in objects if _label(one, "is-root") == "true"}
    names |= dict.fromkeys(roots, ROOT)
    for one in objects:
        if one.name not in names:
            names[one.name] = document_name(one.name, {*names.values(), "system"}, "quota")
    parents = {_parent(one) for one in objects}
    by_name = {one.name: one for one in objects}
    refused = _without_root(by_name, names)
    for one in _parents_first([one for one in objects if names.get(one.name) != ROOT], names):
        if one.name in refused:
            yield ReportLine(ImportOutcome.REFUSED, one.title, f"{PREFIX}parent", note=refused[one.name])
            continue
        if one.name == SYSTEM:
            yield ReportLine(ImportOutcome.DROPPED, one.title, note=SYSTEM_IS_GENERATED)
            continue
        yield from _quota(one, names, trees, _tree_id(one, by_name), is_parent=one.name in parents)
    for name in sorted(roots):
        note = "the root of a tree is generated from what the nodes of its QuotaProfile have"
        yield ReportLine(ImportOutcome.CONVERTED, f"{KIND} {name}", target=f"{KIND}/{ROOT}", note=note)


def _profiles(profiles: Sequence[SourceObject], trees: dict[str, str]) -> Iterator[ConvertedItem]:
    taken: list[str] = []
    for profile in profiles:
        taken.append(document_name(profile.name, taken, "profile"))
        name, target = taken[-1], f"QuotaProfile/{taken[-1]}"
        tree = _label(profile, "tree-id") or str(profile.spec.get("quotaName") or profile.name)
        trees[tree] = document_name(tree, trees.values(), "tree")
        labels = texts_of(mapping_of(profile.spec.get("nodeSelector")).get("matchLabels"))
        pool = labels.get(POOL_LABEL) or "-".join(labels.values()) or name
        spec: dict[str, Any] = {"nodePool": pool, "tree": trees[tree]}
        ratio, keys = profile.spec.get("resourceRatio"), _texts(profile, "resource-keys")
        if ratio is not None:
            try:
                spec["resourcePercent"] = _percent(str(ratio))
            except ValueError as error:
                yield ReportLine(ImportOutcome.REFUSED, profile.title, "spec.resourceRatio", target, str(error))
        if keys is not None:
            spec["resources"] = [LENT.get(key, key) for key in keys]
        yield ConvertedDocument(profile.title, "QuotaProfile", name, spec)
        if labels.get(POOL_LABEL):
            yield ReportLine(ImportOutcome.CONVERTED, profile.title, target=target)
        else:
            note = POOLS_OF_TREES.format(pool=pool)
            yield ReportLine(ImportOutcome.CHANGED, profile.title, "spec.nodeSelector", target, note)


def _percent(text: str) -> int:
    """Returns a ratio as whole percent. Raises ValueError."""
    percent = quantity(text) * 100
    if not 1 <= percent <= 100 or percent != percent.to_integral_value():
        raise ValueError(f"{text} is no whole number of percent from 0.01 to 1; all is given out")
    return int(percent)


def _parents_first(objects: Sequence[SourceObject], names: Mapping[str, str]) -> list[SourceObject]:
    """Returns the quotas from the top down, of equal depth by name."""
    above = {one.name: _parent(one) for one in objects}

    def depth(name: str) -> int:
        steps, seen = 0, {name}
        while (name := above.get(name, "")) and name not in seen:
            seen.add(name)
            steps += 1
        return steps

    return sorted(objects, key=lambda one: (depth(one.name), names[one.name]))


def _without_root(by_name: Mapping[str, SourceObject], names: Mapping[str, str]) -> dict[str, str]:
    """Returns the quotas whose parents do not end at the root, with the reason: a parent is missing, or they are their
    own parents, or those of a parent that is refused."""
    found: dict[str, str] = {}
    for name in by_name:
        path = [name]
        while (parent := _parent(by_name[path[-1]])) and names.get(path[-1]) != ROOT:
            if parent in path:
                ring = path[path.index(parent) :]
                least = ring.index(min(ring))
                circle = " -> ".join((*ring[least:], *ring[:least], ring[least]))
                found[name] = f"{'its parents are' if name in ring else f'{parent} is in'} a cycle: {circle}"
                break
            if parent not in by_name:
                if parent not in names:
                    whose = "" if len(path) == 1 else f", the parent of {path[-1]}"
                    found[name] = f"there is no quota {parent}{whose} in what was read"
                break
            path.append(parent)
    return found


def _quota(
    quota: SourceObject, names: Mapping[str, str], trees: Mapping[str, str], tree: str, *, is_parent: bool
) -> Iterator[ConvertedItem]:
    name = names[quota.name]
    target = f"{KIND}/{name}"
    parent = _parent(quota)
    spec: dict[str, Any] = {}
    if (above := names.get(parent, ROOT)) != ROOT:
        spec["parent"] = above
    if is_parent or _label(quota, "is-parent") == "true":
        spec["isParent"] = True
    if tree:
        spec["tree"] = trees.get(tree) or document_name(tree, (), "tree")
    if _label(quota, "allow-lent-resource") == "false":
        spec["allowLentResource"] = False
    yield from _all_amounts(quota, spec, target)
    if name == CLUSTER and "max" in spec:
        spec["sharedWeight"] = least_weight(spec["max"])
        yield ReportLine(ImportOutcome.CHANGED, quota.title, f"{PREFIX}shared-weight", target, DEFAULT_WEIGHT)
    yield from _left_out(quota)
    yield ConvertedDocument(quota.title, KIND, name, spec)
    yield ReportLine(ImportOutcome.CONVERTED, quota.title, target=target)


def _all_amounts(quota: SourceObject, spec: dict[str, Any], target: str) -> Iterator[ReportLine]:
    """Sets min, max and weight."""
    try:
        weight = json_object(quota.annotations.get(f"{PREFIX}shared-weight", "{}"))
    except ValueError as error:
        weight = {}
        yield ReportLine(ImportOutcome.CHANGED, quota.title, f"{PREFIX}shared-weight", target, f"{error}: max is used")
    written = (("min", quota.spec.get("min")), ("max", quota.spec.get("max")), ("sharedWeight", weight))
    for field, amounts in written:
        converted: dict[str, str | int] = {}
        for resource, amount in mapping_of(amounts).items():
            try:
                converted[LENT.get(resource, resource)] = _amount(resource, str(amount))
            except ValueError as error:
                yield ReportLine(ImportOutcome.REFUSED, quota.title, f"{field}.{resource}", target, str(error))
        if converted:
            spec[field] = converted


def _left_out(quota: SourceObject) -> Iterator[ReportLine]:
    for key in sorted({*quota.labels, *quota.annotations}):
        setting = key.removeprefix(PREFIX)
        if key.startswith(PREFIX) and setting not in READ | OUTPUTS:
            note = WITHOUT_COUNTERPART.get(setting, "is not known")
            yield ReportLine(ImportOutcome.DROPPED, quota.title, key, note=note)


def _amount(resource: str, text: str) -> str | int:
    """Returns an amount as quotas write it; what exceeds any cluster as the most that they take. Raises ValueError."""
    number = quantity(text)
    own = LENT.get(resource, resource)
    if is_cpu(own):
        if resource in LENT:
            return f"{int(number)}m"
        return MOST_CORES if number >= MOST_CORES else text
    return MOST_BYTES if number >= MOST_BYTES else text


def _parent(quota: SourceObject) -> str:
    return _label(quota, "parent")


def _tree_id(quota: SourceObject, by_name: Mapping[str, SourceObject]) -> str:
    """Returns the tree that a quota names, else that of the nearest quota above it that names one.

    The peer's webhook copies it when a quota is created, so manifests that no cluster has seen lack it.
    """
    above: SourceObject | None = quota
    seen: set[str] = set()
    while above is not None and above.name not in seen:
        if tree := _label(above, "tree-id"):
            return tree
        seen.add(above.name)
        above = by_name.get(_parent(above))
    return ""


def _label(one: SourceObject, name: str) -> str:
    return one.labels.get(f"{PREFIX}{name}", "")


def _texts(one: SourceObject, name: str) -> list[str] | None:
    """Returns a list in an annotation; None without it, or if it is none."""
    try:
        values = json_object(f'{{"values": {one.annotations[f"{PREFIX}{name}"]}}}')["values"]
    except (KeyError, ValueError):
        return None
    return [str(value) for value in values] if isinstance(values, list) else None
