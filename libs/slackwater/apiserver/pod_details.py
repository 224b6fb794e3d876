"""What an agent reports of a pod beyond its usage: how it fares, and the hard rules of where it may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from slackwater.apiserver.json_parts import Json, items_in, object_in
from slackwater.apiserver.records import other_amounts
from slackwater.model.bounds import MOST_COUNT, MOST_NAME
from slackwater.model.placement_rules import (
    MOST_RULES,
    NO_RULES,
    AntiAffinityRule,
    HostPort,
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
_HOST: Final = "kubernetes.io/hostname"
_MOST_PORT: Final = 65_535
_PORTABLE_VOLUMES: Final = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "hostPath", "image", "gitRepo", "nfs", "projected", "secret"}
)
"""Volumes that any node can have. Where another kind may be mounted says an object that is not read."""
_CLAIMS: Final = frozenset({"persistentVolumeClaim", "ephemeral"})


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
    claims_volumes = any(volume.keys() & _CLAIMS for volume in volumes)
    if claims_volumes:
        unread.append("volume-claims")
    if any(volume.keys() - _PORTABLE_VOLUMES - _CLAIMS - {"name"} for volume in volumes):
        unread.append("volumes")
    if items_in(spec, "resourceClaims"):
        unread.append("resource-claims")
    rules = PlacementRules(
        node_selector={str(key): str(value) for key, value in object_in(spec, "nodeSelector").items()},
        affinity=read("node-affinity", _node_terms(object_in(affinity, "nodeAffinity"))),
        tolerations=read("tolerations", _tolerations(spec)),
        spread=read("topology-spread", _spread(spec, object_in(metadata, "labels"))),
        anti_affinity=read("pod-anti-affinity", _anti_affinity(affinity, unread)),
        host_ports=read("host-ports", _host_ports(spec)),
        resources=_other_requests(spec),
        unread=tuple(dict.fromkeys(unread)),
        local_storage=any("emptyDir" in volume or "hostPath" in volume for volume in volumes),
        claims_volumes=claims_volumes,
    )
    if rules == NO_RULES:
        return None
    largest = max(len(rules.node_selector), len(rules.resources), len(rules.unread))
    if largest > MOST_RULES or len(msgspec.json.encode(rules)) > MOST_RULE_BYTES:
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
    """An empty term matches no node, so it is left out beside others; of several terms one must hold."""
    terms = items_in(object_in(affinity, _REQUIRED), "nodeSelectorTerms")
    if any(term.get("matchFields") for term in terms):
        raise _UnreadError
    found = [_requirements(items_in(term, "matchExpressions")) for term in terms]
    yield from filter(None, found)
    if found and not any(found):
        yield (_nothing(_HOST),)


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
        key = str(constraint.get("topologyKey") or "")
        policies = [constraint.get(name) for name in ("nodeAffinityPolicy", "nodeTaintsPolicy")]
        if set(policies) - {None, "Honor", "Ignore"}:
            raise _UnreadError
        labels, expressions = _selector(object_in(constraint, "labelSelector"))
        if constraint.get("labelSelector") is None:
            expressions = (_nothing(key),)
        same = {str(name): str(own[name]) for name in constraint.get("matchLabelKeys") or () if name in own}
        yield SpreadRule(
            key,
            max(_whole(constraint.get("maxSkew")), 1),
            {**same, **labels},
            (*expressions, *(LabelRequirement(name, values=(same[name],)) for name in labels.keys() & same.keys())),
            min_domains=max(_whole(constraint.get("minDomains")), 1),
            every_node=policies[0] == "Ignore",
            tolerated_only=policies[1] == "Honor",
        )


def _nothing(key: str) -> LabelRequirement:
    """A condition that no labels fulfil: a constraint without a selector selects no pod, an empty term no node."""
    return LabelRequirement(key, LabelOperator.IN, ())


def _anti_affinity(affinity: Json, unread: list[str]) -> Iterator[AntiAffinityRule]:
    """A term that cannot be read counts as one about all pods, so that no other pod comes beside this one. The API
    server has added `matchLabelKeys` to the selector."""
    for term in items_in(object_in(affinity, "podAntiAffinity"), _REQUIRED):
        key, namespaces = str(term.get("topologyKey") or ""), term.get("namespaceSelector")
        if term.get("labelSelector") is None:  # without one it excludes no pod
            continue
        try:
            labels, expressions = _selector(object_in(term, "labelSelector"))
        except _UnreadError:
            unread.append("pod-anti-affinity")
            yield AntiAffinityRule(key, all_namespaces=True)
            continue
        if namespaces:
            unread.append("pod-anti-affinity")
        names = tuple(str(name) for name in term.get("namespaces") or ())
        everywhere = namespaces is not None
        yield AntiAffinityRule(key, labels, expressions, () if everywhere else names, all_namespaces=everywhere)


def _host_ports(spec: Json) -> Iterator[HostPort]:
    sidecars = [each for each in items_in(spec, "initContainers") if each.get("restartPolicy") == "Always"]
    for container in (*items_in(spec, "containers"), *sidecars):
        for port in items_in(container, "ports"):
            number = _whole(port.get("hostPort"))
            if number > _MOST_PORT:
                raise _UnreadError
            if number:
                yield HostPort(number, str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ""))


def _other_requests(spec: Json) -> dict[str, int]:
    """What the pod requests beyond CPU and memory: the sum of its containers and sidecars, or the largest of the
    others that run before them."""
    total, peak = dict[str, int](), dict[str, int]()
    for part in ("containers", "initContainers"):
        for container in items_in(spec, part):
            resources = object_in(container, "resources")
            amounts = other_amounts({**object_in(resources, "limits"), **object_in(resources, "requests")})
            adds = part == "containers" or container.get("restartPolicy") == "Always"
            for name, amount in amounts.items():
                if adds:
                    total[name] = total.get(name, 0) + amount
                else:
                    peak[name] = max(peak.get(name, 0), amount)
    found = {name: max(total.get(name, 0), peak.get(name, 0)) for name in {**total, **peak}}
    return {name: min(amount, MOST_COUNT) for name, amount in found.items() if amount}


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
