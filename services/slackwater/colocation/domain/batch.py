"""What batch may use of a node, by the policy `usage`, per resource:

    offered = max(0, capacity - margin - max(system, reserved) - prod - mid)
    margin  = trunc(capacity x (100 - reclaim threshold) / 100)         a threshold above 100 % over-commits

What a pod of prod or mid holds, and why it is not simply its usage (the peer's rule): a pod is counted with

* its request, for the CPU of LSE pods: they own their cores, used or not (more, if it is measured to use more);
* the larger of current p95 and predicted peak, once its model is not cold: usage alone offers at night what prod
  takes back in the morning, prediction alone ignores what is happening now;
* the larger of current p95 and its request while the model is cold or there is none: nothing is known about its
  peak, so nothing of its request is lent (`cold_start_holds_request` off: usage alone, as the peer does);
* its request when it was not measured.

System usage that is missing is never zero: the last known value stands in, and before there is any, the reservation
alone, which the offer declares as degraded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from slackwater.decisions.record import Term
from slackwater.model.quantities import Resources

RESOURCES = ("cpu", "memory")


class Basis(StrEnum):
    """By what a pod was counted."""

    OWNED = "request (LSE owns its cores)"
    PREDICTED = "predicted peak"
    USAGE_ABOVE_PREDICTION = "usage (above its predicted peak)"
    COLD_REQUEST = "request (no warm prediction)"
    USAGE = "usage"
    UNMEASURED = "request (not measured)"


_INPUT_OF = {
    Basis.OWNED: "requests",
    Basis.PREDICTED: "predicted_peaks",
    Basis.COLD_REQUEST: "requests",
    Basis.UNMEASURED: "requests",
}
"""Which recorded input a tier's term stands on, by what its largest pod was counted by; usage otherwise."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod's claim: current p95 (None: not measured), predicted peak (None: none), and whether that is cold."""

    uid: str
    tier: str
    qos: str
    request: Resources
    usage: Resources | None
    predicted: Resources | None = None
    cold: bool = False


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """Everything an offer is made of. `system` None: never measured; `system_is_current` False: an older value.

    `age_seconds` is the age of the usage, `lost` that the node was given up.
    """

    capacity: Resources
    reserved: Resources
    pods: tuple[PodUse, ...]
    system: Resources | None
    system_is_current: bool = True
    age_seconds: float = 0.0
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Strategy:
    """Percentages as the field writes them. `reserved` is what the strategy keeps beside the node's own reservation.

    A difference counts beyond `diff_threshold` (ratio of the published value); a rise must last `rise_windows`.
    The offer decays from full to nothing while its usage ages from `decay_from_seconds` to `decay_to_seconds`;
    a prediction older than `prediction_max_age_seconds` is no prediction.
    """

    cpu_reclaim_threshold_percent: int = 60
    memory_reclaim_threshold_percent: int = 65
    reserved: Resources = field(default_factory=Resources)
    cold_start_holds_request: bool = True
    diff_threshold: float = 0.1
    rise_windows: int = 2
    decay_from_seconds: float = 180.0
    decay_to_seconds: float = 900.0
    prediction_max_age_seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class Computed:
    """An offer of one resource before gating. `ceiling` is capacity - margin - reserved, floored at zero."""

    offered: int
    ceiling: int
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class BatchOffer:
    """Both resources of one node."""

    cpu: Computed
    memory: Computed


def batch_offer(snapshot: NodeSnapshot, strategy: Strategy) -> BatchOffer:
    """The offer that these inputs justify, before age and gating."""
    return BatchOffer(compute("cpu", snapshot, strategy), compute("memory", snapshot, strategy))


def compute(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> Computed:
    """One resource with signed terms that add up to it."""
    capacity = amount(snapshot.capacity, resource)
    margin = safety_margin(resource, snapshot.capacity, strategy)
    reserved = amount(snapshot.reserved.larger_of(strategy.reserved), resource)
    kept_back = _system_or_reserved(resource, snapshot, reserved)
    terms = [
        Term(name="capacity", value=capacity),
        Term(
            name="safety_margin",
            value=-margin,
            note=f"{100 - _threshold(resource, strategy)} % of capacity",
            input="reclaim_threshold",
        ),
        kept_back,
    ]
    terms += [_held(tier, resource, snapshot.pods, strategy) for tier in ("prod", "mid")]
    total = sum(term.value for term in terms)
    if total < 0:
        terms.append(Term(name="floor", value=-total, note="an offer is never negative"))
    return Computed(max(total, 0), max(capacity - margin - reserved, 0), tuple(terms))


def safety_margin(resource: str, capacity: Resources, strategy: Strategy) -> int:
    """What is kept back as a reserve, cut toward zero; negative for thresholds above 100 %."""
    share = amount(capacity, resource) * (100 - _threshold(resource, strategy))
    return share // 100 if share >= 0 else -(-share // 100)


def request_policy(resource: str, snapshot: NodeSnapshot, strategy: Strategy) -> int:
    """What the policy `request` would offer: requests instead of use, and no system usage."""
    requested = sum(amount(pod.request, resource) for pod in snapshot.pods if pod.tier in ("prod", "mid"))
    reserved = amount(snapshot.reserved.larger_of(strategy.reserved), resource)
    margin = safety_margin(resource, snapshot.capacity, strategy)
    return max(0, amount(snapshot.capacity, resource) - margin - reserved - requested)


def held_by(pod: PodUse, resource: str, strategy: Strategy) -> tuple[int, Basis]:
    """How much of one resource a pod of a high tier holds, and by what it was counted."""
    request = amount(pod.request, resource)
    usage = amount(pod.usage, resource) if pod.usage else 0
    peak = amount(pod.predicted, resource) if pod.predicted else 0
    if resource == "cpu" and pod.qos == "LSE":
        return max(request, usage), Basis.OWNED
    if pod.predicted and not pod.cold:
        return (usage, Basis.USAGE_ABOVE_PREDICTION) if usage > peak else (peak, Basis.PREDICTED)
    if pod.usage is None:
        return max(request, peak), Basis.UNMEASURED
    if strategy.cold_start_holds_request and max(request, peak) > usage:
        return max(request, peak), Basis.COLD_REQUEST
    return usage, Basis.USAGE


def amount(resources: Resources, resource: str) -> int:
    """Milli-cores of `cpu` or bytes of `memory`."""
    return resources.cpu_milli if resource == "cpu" else resources.memory_bytes


def system_is_unknown(snapshot: NodeSnapshot) -> bool:
    """Whether the system was never measured: its part of the offer is then only the reservation."""
    return snapshot.system is None


def _system_or_reserved(resource: str, snapshot: NodeSnapshot, reserved: int) -> Term:
    source = "reserved_by_node" if reserved == amount(snapshot.reserved, resource) else "reserved_by_strategy"
    if snapshot.system is None:
        return Term(name="reserved", value=-reserved, note="system usage was never measured", input=source)
    system = amount(snapshot.system, resource)
    if reserved > system:
        return Term(name="reserved", value=-reserved, note=f"system uses {system}", input=source)
    note = "p95" if snapshot.system_is_current else "last known p95"
    return Term(name="system", value=-system, note=note, input="system_p95")


def _held(tier: str, resource: str, pods: Iterable[PodUse], strategy: Strategy) -> Term:
    held = [held_by(pod, resource, strategy) for pod in pods if pod.tier == tier]
    bases = Counter(basis.value for _, basis in held)
    note = ", ".join(f"{count} by {basis}" for basis, count in sorted(bases.items()))
    most = max(held, key=lambda pair: pair[0], default=(0, Basis.USAGE))[1]
    value = -sum(value for value, _ in held)
    return Term(name=tier, value=value, note=note or "no pods", input=f"{tier}_{_INPUT_OF.get(most, 'p95')}")


def _threshold(resource: str, strategy: Strategy) -> int:
    percents = {"cpu": strategy.cpu_reclaim_threshold_percent, "memory": strategy.memory_reclaim_threshold_percent}
    return percents[resource]
