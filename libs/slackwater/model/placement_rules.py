"""What Kubernetes lets users say of where a pod may be: the hard rules, as agents report them and placement reads them.

Preferences are not among them: taints of the effect PreferNoSchedule apart, a rule that only advises keeps no pod away.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated, TypeVar

from annotated_types import Interval, Len
from msgspec import Meta
from pydantic import FailFast, Field

from slackwater.model.bounds import Count, Key, Name
from slackwater.model.records import record

MOST_RULES = 64
"""Of one kind, in one pod or node: about what the API server's own limits allow in use."""
MOST_SKEW = 1_000_000
T = TypeVar("T")
Few = Annotated[tuple[T, ...], Len(0, MOST_RULES), FailFast(), Meta(max_length=MOST_RULES)]
FewLabels = Annotated[dict[Key, Key], Len(0, MOST_RULES), Meta(max_length=MOST_RULES)]
FewAmounts = Annotated[dict[Key, Count], Len(0, MOST_RULES), Meta(max_length=MOST_RULES)]
Skew = Annotated[int, Interval(ge=1, le=MOST_SKEW), Meta(ge=1, le=MOST_SKEW)]
PortNumber = Annotated[int, Interval(ge=1, le=65_535), Meta(ge=1, le=65_535)]
_WHOLE = re.compile(r"[+-]?[0-9]{1,63}")
TOO_LARGE, UNKNOWN_VALUES = "too-large", "unknown-values"
OPAQUE = frozenset({TOO_LARGE, UNKNOWN_VALUES})
"""Unread as a whole: neither the labels of such a pod nor what it excludes are known."""
_SetOnly = Field(exclude_if=operator.not_)


class LabelOperator(StrEnum):
    """As in `matchExpressions` of Kubernetes. Gt and Lt compare whole numbers and apply to nodes only."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@record(frozen=True, slots=True)
class LabelRequirement:
    """One condition on one label. NotIn also holds where the label is absent."""

    key: Key
    operator: LabelOperator = LabelOperator.IN
    values: Annotated[Few[Key], _SetOnly] = ()

    def __str__(self) -> str:
        """As in a condition of kubectl."""
        return f"{self.key} {self.operator}" + (f" ({', '.join(self.values)})" if self.values else "")

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it."""
        value = labels.get(self.key)
        match self.operator:
            case LabelOperator.IN:
                return value in self.values
            case LabelOperator.NOT_IN:
                return value not in self.values
            case LabelOperator.EXISTS:
                return value is not None
            case LabelOperator.DOES_NOT_EXIST:
                return value is None
            case LabelOperator.GT:
                return _compares(value, self.values, 1)
            case LabelOperator.LT:
                return _compares(value, self.values, -1)


NodeTerm = Few[LabelRequirement]
"""All conditions hold."""


def all_hold(requirements: Iterable[LabelRequirement], labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil all requirements."""
    return all(requirement.holds(labels) for requirement in requirements)


def _compares(value: str | None, bounds: tuple[str, ...], sign: int) -> bool:
    """Whether a whole number is above (sign 1) or below (-1) the only bound; what is no number fulfils nothing."""
    if len(bounds) != 1 or value is None:
        return False
    number, bound = _whole_number(value), _whole_number(bounds[0])
    return number is not None and bound is not None and sign * (number - bound) > 0


def _whole_number(text: str) -> int | None:
    """As the API server parses it, in 64 bits; `int` takes `1_0` and digits of other scripts, too."""
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


@record(frozen=True, slots=True)
class NodeTaint:
    """Keeps pods away that do not tolerate it. Effects that only advise keep none away."""

    key: Key
    value: Annotated[Key, _SetOnly] = ""
    effect: Key = "NoSchedule"


@record(frozen=True, slots=True)
class PodToleration:
    """Tolerates taints of a key; empty or None matches all."""

    key: Annotated[Key, _SetOnly] = ""
    value: Annotated[Key | None, Field(exclude_if=lambda value: value is None)] = None
    effect: Annotated[Key, _SetOnly] = ""

    def matches(self, taint: NodeTaint) -> bool:
        """Whether it tolerates the taint."""
        return self.key in ("", taint.key) and self.value in (None, taint.value) and self.effect in ("", taint.effect)


@record(frozen=True, slots=True)
class SpreadRule:
    """Pods that it selects in the pod's namespace differ by at most `max_skew` between two domains: nodes with the same
    value of the label `topology_key`. It selects by `labels` and `expressions`, which all hold.

    With fewer than `min_domains` domains the emptiest one counts as empty. `every_node`: nodes that the pod's node
    selector and affinity exclude count as well (nodeAffinityPolicy Ignore). `tolerated_only`: nodes with taints that
    the pod does not tolerate do not count (nodeTaintsPolicy Honor).
    """

    topology_key: Key
    max_skew: Skew = 1
    labels: Annotated[FewLabels, _SetOnly] = field(default_factory=dict)
    expressions: Annotated[NodeTerm, _SetOnly] = ()
    min_domains: Annotated[Skew, Field(exclude_if=lambda count: count == 1)] = 1
    every_node: Annotated[bool, _SetOnly] = False
    tolerated_only: Annotated[bool, _SetOnly] = False

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels counts."""
        return selects(self, labels)


@record(frozen=True, slots=True)
class AntiAffinityRule:
    """No other pod that it selects is in the same domain. It selects pods of `namespaces` (none: the pod's own), or of
    all with `all_namespaces`."""

    topology_key: Key
    labels: Annotated[FewLabels, _SetOnly] = field(default_factory=dict)
    expressions: Annotated[NodeTerm, _SetOnly] = ()
    namespaces: Annotated[Few[Name], _SetOnly] = ()
    all_namespaces: Annotated[bool, _SetOnly] = False

    def concerns(self, own: str, namespace: str) -> bool:
        """Whether a rule of a pod in the namespace `own` selects pods of another."""
        return self.all_namespaces or namespace in (self.namespaces or (own,))

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is excluded."""
        return selects(self, labels)


def selects(rule: SpreadRule | AntiAffinityRule, labels: Mapping[str, str]) -> bool:
    """Whether a rule's selector matches the labels of a pod."""
    return all(labels.get(key) == value for key, value in rule.labels.items()) and all_hold(rule.expressions, labels)


@record(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod takes; no `ip`: on all addresses."""

    port: PortNumber
    protocol: Annotated[Key, Field(exclude_if=lambda protocol: protocol == "TCP")] = "TCP"
    ip: Annotated[Key, _SetOnly] = ""

    def conflicts(self, other: HostPort) -> bool:
        """Whether two pods with these cannot be on one node."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (self.ip == other.ip or self.ip in ALL_ADDRESSES or other.ip in ALL_ADDRESSES)


ALL_ADDRESSES = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


@record(frozen=True, slots=True)
class PlacementRules:
    """Where a pod may be. `affinity`: terms of which one must hold; none: everywhere. `resources`: what it requests
    beyond CPU and memory, for example devices.

    `unread` names the hard rules of the pod that are not among these, for example a pod affinity or the zone of a
    volume: such a pod is not proposed for a move, because no target is known to be allowed. `local_storage`: it keeps
    data in an emptyDir or hostPath. `claims_volumes`: it has a PersistentVolumeClaim.
    """

    node_selector: Annotated[FewLabels, _SetOnly] = field(default_factory=dict)
    affinity: Annotated[Few[NodeTerm], _SetOnly] = ()
    tolerations: Annotated[Few[PodToleration], _SetOnly] = ()
    spread: Annotated[Few[SpreadRule], _SetOnly] = ()
    anti_affinity: Annotated[Few[AntiAffinityRule], _SetOnly] = ()
    host_ports: Annotated[Few[HostPort], _SetOnly] = ()
    resources: Annotated[FewAmounts, _SetOnly] = field(default_factory=dict)
    unread: Annotated[Few[Name], _SetOnly] = ()
    local_storage: Annotated[bool, _SetOnly] = False
    claims_volumes: Annotated[bool, _SetOnly] = False

    def as_too_large(self) -> PlacementRules:
        """What is reported in place of rules that do not fit: such a pod is not proposed for a move."""
        return PlacementRules(unread=(TOO_LARGE,), local_storage=self.local_storage, claims_volumes=self.claims_volumes)


NO_RULES = PlacementRules()
