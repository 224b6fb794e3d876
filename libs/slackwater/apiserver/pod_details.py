"""What an agent reports of a pod beyond its usage: how it fares, and the hard rules of where it may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from slackwater.apiserver.json_parts import Json, items_in, object_in
from slackwater.model.bounds import MOST_NAME
from slackwater.model.placement_rules import (
    MOST_RULES,
    NO_RULES,
    AntiAffinityRule,
    LabelOperator,
    LabelRequirement,
    PlacementRules,
    PodToleration,
    SpreadRule,
)
from slackwater.model.pods import FAILED, RUNNING, WELL, PodStatus

MOST_RULE_BYTES: Final = 4096
"""JSON of the rules of one pod; a report has those of a hundred pods."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OPERATORS: Final = frozenset(map(str, LabelOperator))


class _UnreadError(Exception):
    """A rule says something that PlacementRules cannot."""


def status_of(item: Json) -> PodStatus | None:
    """Returns how a pod fares; None where all is at its default. Restarts of init containers do not count, as in the
    Kubernetes descheduler."""
    status = object_in(item, "status")
    containers = items_in(status, "containerStatuses")
    ready = _ready_condition(status)
    is_ready = ready.get("status") == "True"
    phase = str(status.get("phase") or RUNNING)[:MOST_NAME]
    found = PodStatus(
        ready=is_ready,
        restarts=sum(_whole(entry.get("restartCount")) for entry in containers),
        phase=phase,
        reason=_reason(status, containers, ready)[:MOST_NAME] if phase == FAILED or not is_ready else "",
        terminating=bool(object_in(item, "metadata").get("deletionTimestamp")),
    )
    return None if found == WELL else found


def rules_of(item: Json) -> PlacementRules | None:
    """Returns where a pod may be; None: no rule at all."""
    spec, metadata = object_in(item, "spec"), object_in(item, "metadata")
    unread: list[str] = []

    def read(name: str, rules: Iterator[Any]) -> tuple[Any, ...]:
        try:
            found = tuple(rules)
        except _UnreadError:
            found = None
        if found is None or len(found) > MOST_RULES:
            unread.append(name)
            return ()
        return found

    affinity = object_in(spec, "affinity")
    volumes = items_in(spec, "volumes")
    if items_in(object_in(affinity, "podAffinity"), _REQUIRED):
        unread.append("pod-affinity")
    rules = PlacementRules(
        node_selector={str(key): str(value) for key, value in object_in(spec, "nodeSelector").items()},
        affinity=read("node-affinity", _node_terms(object_in(affinity, "nodeAffinity"))),
        tolerations=read("tolerations", _tolerations(spec)),
        spread=read("topology-spread", _spread(spec, object_in(metadata, "labels"))),
        anti_affinity=read("pod-anti-affinity", _anti_affinity(affinity, str(metadata.get("namespace") or ""))),
        unread=tuple(unread),
        local_storage=any("emptyDir" in volume or "hostPath" in volume for volume in volumes),
        claims_volumes=any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes),
    )
    if rules == NO_RULES:
        return None
    if len(rules.node_selector) > MOST_RULES or len(msgspec.json.encode(rules)) > MOST_RULE_BYTES:
        return rules.as_too_large()
    return rules


def _reason(status: Json, containers: Sequence[Json], ready: Json) -> str:
    """The most telling word: of the pod, of a container that waits or has ended, of the condition."""
    if status.get("reason"):
        return str(status["reason"])
    for part in ("waiting", "terminated"):
        for entry in containers:
            reason = object_in(object_in(entry, "state"), part).get("reason")
            if reason:
                return str(reason)
    return str(ready.get("reason") or "")


def _ready_condition(status: Json) -> Json:
    return next((entry for entry in items_in(status, "conditions") if entry.get("type") == "Ready"), {})


def _node_terms(affinity: Json) -> Iterator[tuple[LabelRequirement, ...]]:
    """An empty term matches no node, so it is left out; of several terms one must hold."""
    terms = items_in(object_in(affinity, _REQUIRED), "nodeSelectorTerms")
    for term in terms:
        if term.get("matchFields"):
            raise _UnreadError
        if requirements := _requirements(items_in(term, "matchExpressions")):
            yield requirements


def _tolerations(spec: Json) -> Iterator[PodToleration]:
    """Those that last: a toleration for some seconds holds until the pod is evicted."""
    for toleration in items_in(spec, "tolerations"):
        if toleration.get("tolerationSeconds") is not None:
            continue
        operator = toleration.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            raise _UnreadError
        value = None if operator == "Exists" else str(toleration.get("value") or "")
        yield PodToleration(str(toleration.get("key") or ""), value, str(toleration.get("effect") or ""))


def _spread(spec: Json, own: Json) -> Iterator[SpreadRule]:
    for constraint in items_in(spec, "topologySpreadConstraints"):
        if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        labels, expressions = _selector(object_in(constraint, "labelSelector"))
        keys = constraint.get("matchLabelKeys") or ()
        same = {str(key): str(own[key]) for key in keys if key in own}
        skew = max(_whole(constraint.get("maxSkew")), 1)
        yield SpreadRule(str(constraint.get("topologyKey") or ""), skew, {**labels, **same}, expressions)


def _anti_affinity(affinity: Json, namespace: str) -> Iterator[AntiAffinityRule]:
    """Those about pods of the own namespace. The API server has added `matchLabelKeys` to the selector."""
    for term in items_in(object_in(affinity, "podAntiAffinity"), _REQUIRED):
        if term.get("namespaceSelector") is not None or set(term.get("namespaces") or (namespace,)) != {namespace}:
            raise _UnreadError
        if term.get("labelSelector") is not None:  # without one it excludes no pod
            labels, expressions = _selector(object_in(term, "labelSelector"))
            yield AntiAffinityRule(str(term.get("topologyKey") or ""), labels, expressions)


def _selector(selector: Json) -> tuple[dict[str, str], tuple[LabelRequirement, ...]]:
    labels = {str(key): str(value) for key, value in object_in(selector, "matchLabels").items()}
    return labels, _requirements(items_in(selector, "matchExpressions"))


def _requirements(expressions: Sequence[Json]) -> tuple[LabelRequirement, ...]:
    found = []
    for expression in expressions:
        operator = str(expression.get("operator") or "")
        if operator not in _OPERATORS:
            raise _UnreadError
        values = tuple(str(value) for value in expression.get("values") or ())
        found.append(LabelRequirement(str(expression.get("key") or ""), LabelOperator(operator), values))
    return tuple(found)


def _whole(value: object) -> int:
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0
