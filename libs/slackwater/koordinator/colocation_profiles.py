"""ClusterColocationProfile of config.koordinator.sh as the kind of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from slackwater.koordinator.conversion_report import ConvertedDocument, ConvertedItem, ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import SourceObject, document_name, selector_of
from slackwater.model.tiers import LABEL_TIER, PRIORITY_RANGES, Tier, tier_named, tier_of_priority
from slackwater.waterline.facts.eviction_marks import LABEL_PRIORITY

Line = Callable[[ImportOutcome, str, str], ReportLine]
KIND: Final = "ClusterColocationProfile"
SKIP_RESOURCES: Final = "config.koordinator.sh/skip-update-resources"
CONTROLLER: Final = "config.koordinator.sh/controller-managed"
SCHEDULER: Final = "koord-scheduler"
SHIPPED: Final[Mapping[str, int]] = {f"koord-{tier}": span.start for tier, span in PRIORITY_RANGES.items()}
"""The classes that the peer installs, with the lowest value of their tier."""
MAPPINGS: Final = ("labelKeysMapping", "annotationKeysMapping")
COPIED: Final = ("labels", "annotations", *MAPPINGS)
WITHOUT_COUNTERPART: Final[Mapping[str, str]] = {
    "labelSuffixes": "a label gets a value; nothing is appended to one",
    "patch": "profiles change what their fields name; write a MutatingAdmissionPolicy of your own for the rest",
}
KNOWN: Final = frozenset(
    {
        *("namespaceSelector", "selector", "probability", "schedulerName", "qosClass", "priorityClassName"),
        *("koordinatorPriority", *COPIED, *WITHOUT_COUNTERPART),
    }
)


def colocation_profiles(
    profiles: Sequence[SourceObject], priority_classes: Sequence[SourceObject]
) -> Iterator[ConvertedItem]:
    """Yields the documents of all profiles. Values of priority classes are those of the objects, else those that the
    peer installs."""
    classes = {one.name: one.body for one in priority_classes}
    taken: list[str] = []
    for profile in profiles:
        taken.append(document_name(profile.name, taken, "profile"))
        yield from _profile(profile, taken[-1], classes)


def _profile(profile: SourceObject, name: str, classes: Mapping[str, Mapping[str, Any]]) -> Iterator[ConvertedItem]:
    given, target = profile.spec, f"{KIND}/{name}"

    def line(outcome: ImportOutcome, field: str, note: str) -> ReportLine:
        kept = outcome in (ImportOutcome.CONVERTED, ImportOutcome.CHANGED)
        return ReportLine(outcome, profile.title, f"spec.{field}", target if kept else "", note)

    try:
        spec = {**_selectors(given), **_share(given)}
    except _Unreadable as error:
        yield line(ImportOutcome.REFUSED, error.field, error.note)
        return
    if spec.get("probability") not in (None, 0, 100):
        yield line(ImportOutcome.CHANGED, "probability", "all pods of one controller change, or none")
    spec |= {key: dict(given[key]) for key in COPIED if isinstance(given.get(key), Mapping) and given[key]}
    if given.get("qosClass"):
        spec["qosClass"] = given["qosClass"]
    yield from _priority(given, spec, classes, line)
    if (own := given.get("koordinatorPriority")) is not None:
        spec["labels"] = {**spec.get("labels", {}), LABEL_PRIORITY[0]: str(own)}
    yield from _scheduler(given, spec, line)
    yield from _resources(profile, spec, line)
    for key in given:
        if key in WITHOUT_COUNTERPART or key not in KNOWN:
            yield line(ImportOutcome.DROPPED, key, WITHOUT_COUNTERPART.get(key, "the kind has no such field"))
    yield ConvertedDocument(profile.title, KIND, name, spec)
    yield ReportLine(ImportOutcome.CONVERTED, profile.title, target=target)


class _Unreadable(Exception):
    """A field that cannot be read, so that the profile cannot be converted."""

    def __init__(self, field: str, note: str) -> None:
        super().__init__(note)
        self.field, self.note = field, note


def _selectors(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the selectors; the empty one, which selects everything, if there are none. Raises _Unreadable."""
    found = {}
    for key in ("selector", "namespaceSelector"):
        if given.get(key) is not None:
            try:
                found[key] = selector_of(given[key])
            except ValueError as error:
                raise _Unreadable(key, f"{error}; to the peer that matches every pod") from None
    return found or {"selector": {}}


def _share(given: Mapping[str, Any]) -> dict[str, int]:
    """Returns the probability, if there is one. Raises _Unreadable."""
    if (chance := given.get("probability")) is None:
        return {}
    percent = str(chance).removesuffix("%")
    if not percent.isdecimal() or int(percent) > 100:
        raise _Unreadable("probability", f"{chance!r} is no percentage")
    return {"probability": int(percent)}


def _resources(profile: SourceObject, spec: dict[str, Any], line: Line) -> Iterator[ReportLine]:
    if SKIP_RESOURCES in profile.annotations:
        spec["resourceDomain"] = "none"
    elif spec.get("tier") in (Tier.BATCH, Tier.MID):
        note = "resources become slackwater.io/*; resourceDomain: kubernetes.io keeps the peer's names"
        yield line(ImportOutcome.CHANGED, "priorityClassName", note)
    if profile.labels.get(CONTROLLER) == "true":
        yield line(ImportOutcome.DROPPED, CONTROLLER, "pods that exist do not change")


def _priority(
    given: Mapping[str, Any], spec: dict[str, Any], classes: Mapping[str, Mapping[str, Any]], line: Line
) -> Iterator[ReportLine]:
    """Sets priority class and tier; the label of the tier goes before the value, as it does for the peer."""
    name = given.get("priorityClassName")
    labelled = next((spec["labels"][key] for key in LABEL_TIER if key in spec.get("labels", {})), "")
    tier = tier_named(labelled)
    if name:
        known = classes.get(name, {})
        value = known.get("value", SHIPPED.get(name))
        if not isinstance(value, int):
            note = f"the value of {name} is not known: convert its PriorityClass together with the profile"
            yield line(ImportOutcome.REFUSED, "priorityClassName", note)
        else:
            policy = {"preemptionPolicy": known["preemptionPolicy"]} if known.get("preemptionPolicy") else {}
            spec["priorityClass"] = {"name": name, "value": value, **policy}
            tier = tier or tier_of_priority(value)
            if name not in classes:
                note = f"is taken for the class that Koordinator installs, value {value}; it must stay in the cluster"
                yield line(ImportOutcome.CHANGED, "priorityClassName", note)
    if tier is not None:
        spec["tier"] = str(tier)


def _scheduler(given: Mapping[str, Any], spec: dict[str, Any], line: Line) -> Iterator[ReportLine]:
    if not (name := given.get("schedulerName")):
        return
    if name == SCHEDULER:
        note = f"is left out: without {SCHEDULER} such pods stay Pending"
        yield line(ImportOutcome.CHANGED, "schedulerName", note)
    else:
        spec["schedulerName"] = name
