"""Makes what the agent publishes what readers accept: one value of one pod must not lose the report of a node.

Bounds are those of the events (`model.value_fitter`). A message has at most MOST_MESSAGE_BYTES; what a pod or node is
described by is bounded for each, so that one pod does not take the room of others. What was changed is named in the
next reports (`left_out`) and logged once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

import msgspec

from slackwater.events.envelope import Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.measures import PodUsage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.bounds import MOST_NAME, MOST_PODS
from slackwater.model.placement_rules import MOST_RULES
from slackwater.model.pods import Pod
from slackwater.model.value_fitter import Fit, fitter, label_of
from slackwater.telemetry.logs import get_logger

P = TypeVar("P", bound=Payload)
_log = get_logger(__name__)

HEADER_BYTES: Final = 16_384
"""As much is left for headers, which the broker counts, too."""
MOST_MESSAGE_BYTES: Final = 524_288 - HEADER_BYTES
"""Of a report, as the streams USAGE and URGENT take it. A test compares the limits with the contract."""
MOST_ANSWER_BYTES: Final = 131_072 - HEADER_BYTES
"""Of an answer to an intent or an eviction, as the stream AGENTS takes it."""
MOST_POD_LABEL_BYTES: Final = 16_384
MOST_NODE_LABEL_BYTES: Final = 131_072
"""Of labels, and of annotations."""
_MOST_DETAIL: Final = 1024
"""Characters of what an eviction or a start says of itself."""
_POD_NUMBERS_BYTES: Final = 1024
"""Upper estimate of a pod's usage, without its description."""
_HEAD_BYTES: Final = 65_536
"""As much is left for the rest of a report: what was left out is listed after its size was measured."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class _KnownPod:
    """A pod as the driver has it and as it is published; `size_bytes` is an upper estimate of its JSON."""

    pod: Pod
    fitted: Pod
    notes: tuple[str, ...]
    size_bytes: int


@dataclass(slots=True)
class FitPayloads:
    """A pod that is described as before is checked once."""

    _fits: dict[Any, Fit | None] = field(default_factory=dict)
    _pods: dict[str, _KnownPod] = field(default_factory=dict)
    _of_description: tuple[str, ...] = ()
    _logged: dict[str, frozenset[str]] = field(default_factory=dict)

    def __call__(self, payload: P) -> P:
        """Returns the payload, or a copy with the values that fit."""
        if isinstance(payload, UsageReported):
            return cast(P, self._report(payload))
        if isinstance(payload, NodeDescribed):
            return cast(P, self._description(payload))
        notes: list[str] = []
        fitted = cast(P, self._fit(type(payload), payload, notes))
        if isinstance(fitted, EvictionCompleted):
            fitted = cast(P, fitted.model_copy(update={"detail": fitted.detail[:_MOST_DETAIL]}))
        if isinstance(fitted, IntentObserved):
            fitted = cast(P, _short_answer(fitted, notes))
        self._log_new(payload.TYPE, notes)
        return fitted

    def _description(self, payload: NodeDescribed) -> NodeDescribed:
        notes: list[str] = []
        fitted = cast(NodeDescribed, self._fit(NodeDescribed, payload, notes))
        facts = fitted.facts
        labels = _within(facts.labels, MOST_NODE_LABEL_BYTES, "labels", notes)
        annotations = _within(facts.annotations, MOST_NODE_LABEL_BYTES, "annotations", notes)
        if labels is not facts.labels or annotations is not facts.annotations:
            fitted = fitted.model_copy(update={"facts": replace(facts, labels=labels, annotations=annotations)})
        self._of_description = tuple(f"node: {note.removeprefix('.facts').lstrip('.: ')}" for note in notes)
        return fitted

    def _report(self, report: UsageReported) -> UsageReported:
        notes = list(self._of_description)
        head: list[str] = []
        fitted = cast(UsageReported, self._fit(type(report), report, head, without=("pods", "failed_pods", "left_out")))
        notes += [note.lstrip(".") for note in head]
        before, known = self._pods, dict[str, _KnownPod]()
        pods = self._usages(report.pods, before, known, notes)
        failed = self._failed(report.failed_pods, before, known, notes) if report.failed_pods else ()
        self._pods = known
        fitted = fitted.model_copy(update={"pods": pods, "failed_pods": failed})
        room = MOST_MESSAGE_BYTES - _HEAD_BYTES - _POD_NUMBERS_BYTES * len(pods)
        if sum(pod.size_bytes for pod in known.values()) > room:
            fitted = _shrunk(fitted, notes)
        self._log_new(report.TYPE, notes)
        return fitted.model_copy(update={"left_out": _listed(notes)}) if notes else fitted

    def _usages(
        self,
        usages: Sequence[PodUsage],
        before: Mapping[str, _KnownPod],
        known: dict[str, _KnownPod],
        notes: list[str],
    ) -> tuple[PodUsage, ...]:
        fitted = []
        for usage in usages:
            pod = self._pod(usage.pod, before, known, notes)
            if pod is None:
                continue
            found: list[str] = []
            fits = cast(PodUsage, self._fit(PodUsage, usage, found, without=("pod",)))
            if found:
                notes += _of(pod, found)
            fitted.append(fits if fits.pod is pod else replace(fits, pod=pod))
        if len(fitted) > MOST_PODS:
            notes.append(f"pods: {len(fitted)}, the first {MOST_PODS} are reported")
        return tuple(fitted[:MOST_PODS])

    def _failed(
        self, pods: Sequence[Pod], before: Mapping[str, _KnownPod], known: dict[str, _KnownPod], notes: list[str]
    ) -> tuple[Pod, ...]:
        fitted = [self._pod(pod, before, known, notes) for pod in pods]
        return tuple(pod for pod in fitted if pod is not None)[:MOST_PODS]

    def _pod(
        self, pod: Pod, before: Mapping[str, _KnownPod], known: dict[str, _KnownPod], notes: list[str]
    ) -> Pod | None:
        """Returns the pod as it is published; None for one without a uid of its own, which no reader takes."""
        if not pod.uid or pod.uid in known:
            notes.append(f"{label_of(pod)}: left out: its uid {'repeats' if pod.uid else 'is empty'}")
            return None
        entry = before.get(pod.uid)
        if entry is None or entry.pod is not pod:
            entry = self._known(pod)
        known[pod.uid] = entry
        notes += entry.notes
        return entry.fitted

    def _known(self, pod: Pod) -> _KnownPod:
        notes: list[str] = []
        fitted = cast(Pod, self._fit(Pod, pod, notes))
        labels = _within(fitted.labels, MOST_POD_LABEL_BYTES, "labels", notes)
        if labels is not fitted.labels:
            fitted = replace(fitted, labels=labels)
        return _KnownPod(pod, fitted, _of(pod, notes), len(msgspec.json.encode(fitted)))

    def _fit(self, shape: type, value: Any, notes: list[str], without: Sequence[str] = ()) -> Any:
        if shape not in self._fits:
            self._fits[shape] = fitter(shape, without)
        fit = self._fits[shape]
        return value if fit is None else fit(value, notes)

    def _log_new(self, type_: str, notes: Sequence[str]) -> None:
        """Logs what the last payload of the type did not have."""
        logged = self._logged.get(type_, frozenset())
        new = [note for note in notes if note not in logged]
        if new:
            _log.warning("values do not fit and are capped or left out", type=type_, count=len(new), first=new[:_SHOWN])
        if notes or logged:
            self._logged[type_] = frozenset(notes)


def _short_answer(answer: IntentObserved, notes: list[str]) -> IntentObserved:
    """Returns the answer within the size of a message: with the first items of each list, as many as fit. Limits are in
    the reports, too."""
    starts = tuple(start.model_copy(update={"detail": start.detail[:_MOST_DETAIL]}) for start in answer.starts)
    answer = answer.model_copy(update={"starts": starts})
    while (size := len(answer.body().encode())) > MOST_ANSWER_BYTES:
        lists = {name: getattr(answer, name) for name in ("limits", "memory_limits", "foreign_writers", "starts")}
        kept = {name: values[: len(values) * MOST_ANSWER_BYTES // size] for name, values in lists.items()}
        notes += [f"{name}: the first {len(kept[name])} of {len(lists[name])}" for name in lists if lists[name]]
        answer = answer.model_copy(update=kept)
    return answer


def _of(pod: Pod, notes: Iterable[str]) -> tuple[str, ...]:
    """The notes of a pod, each with its name."""
    return tuple(f"{label_of(pod)}: {note.lstrip('.')}" for note in notes)


def _within(entries: Mapping[str, str], most_bytes: int, name: str, notes: list[str]) -> dict[str, str]:
    """Returns as many entries as fit, the shortest first; what planners read is short."""
    characters = sum(map(len, entries)) + sum(map(len, entries.values()))
    if 6 * (characters + len(entries)) <= most_bytes:  # whatever of it is escaped
        return cast(dict[str, str], entries)
    kept, size = dict[str, str](), 0
    for key, text in sorted(entries.items(), key=lambda entry: len(entry[0]) + len(entry[1])):
        size += len(msgspec.json.encode(key)) + len(msgspec.json.encode(text)) + 2
        if size > most_bytes:
            break
        kept[key] = text
    if len(kept) == len(entries):
        return cast(dict[str, str], entries)
    notes.append(f"{name}: {len(entries) - len(kept)} of {len(entries)} left out: more than {most_bytes} bytes")
    return {key: text for key, text in entries.items() if key in kept}


def _shrunk(report: UsageReported, notes: list[str]) -> UsageReported:
    """Returns the report within the size of a message: without labels and rules of the pods that have most of them,
    then without failed pods, then without the pods that use least."""
    most_bytes = MOST_MESSAGE_BYTES - _HEAD_BYTES
    while (size := len(report.body().encode())) > most_bytes:
        excess = size - most_bytes
        bare = _largest([*(usage.pod for usage in report.pods), *report.failed_pods], excess)
        if bare:
            notes += [f"{label_of(pod)}: labels and rules left out: the report is too large" for pod in bare.values()]
            report = _without_details(report, frozenset(bare))
        elif report.failed_pods:
            notes.append(f"failed_pods: {len(report.failed_pods)} left out: the report is too large")
            report = report.model_copy(update={"failed_pods": ()})
        else:
            report = _without_smallest(report, -(-len(report.pods) * excess // size) + 1, notes)
    return report


def _largest(pods: Iterable[Pod], excess: int) -> dict[str, Pod]:
    """The pods with the longest labels and rules, by uid: as many as free so many bytes."""
    sizes = [(len(msgspec.json.encode((pod.labels, pod.rules))), pod) for pod in pods if pod != _bare(pod)]
    found: dict[str, Pod] = {}
    for size, pod in sorted(sizes, key=lambda entry: -entry[0]):
        if excess <= 0:
            break
        found[pod.uid], excess = pod, excess - size
    return found


def _without_details(report: UsageReported, uids: frozenset[str]) -> UsageReported:
    pods = tuple(replace(usage, pod=_bare(usage.pod)) if usage.pod.uid in uids else usage for usage in report.pods)
    failed = tuple(_bare(pod) if pod.uid in uids else pod for pod in report.failed_pods)
    return report.model_copy(update={"pods": pods, "failed_pods": failed})


def _bare(pod: Pod) -> Pod:
    return replace(pod, labels={}, rules=None if pod.rules is None else pod.rules.as_too_large())


def _without_smallest(report: UsageReported, count: int, notes: list[str]) -> UsageReported:
    used = {usage.pod.uid: (usage.usage.memory_bytes.max, usage.usage.cpu_milli.max) for usage in report.pods}
    out = frozenset(sorted(used, key=lambda uid: used[uid])[:count])
    notes.append(f"pods: {len(out)} of {len(used)} left out: the report is too large")
    return report.model_copy(update={"pods": tuple(usage for usage in report.pods if usage.pod.uid not in out)})


def _listed(notes: Sequence[str]) -> tuple[str, ...]:
    """The notes as a report has them."""
    listed = [note[:MOST_NAME] for note in dict.fromkeys(notes)]
    if len(listed) > MOST_RULES:
        listed[MOST_RULES - 1 :] = [f"and {len(listed) - MOST_RULES + 1} more values"]
    return tuple(listed)
