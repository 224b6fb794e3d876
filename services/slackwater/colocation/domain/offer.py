"""The whole decision of one resource: compute, age, gate; with terms that add up, and repeatable from JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slackwater.colocation.domain.batch import NodeSnapshot, PodUse, Strategy, compute
from slackwater.colocation.domain.degrade import aged, degraded_because
from slackwater.colocation.domain.gating import Gate, pass_gate
from slackwater.decisions.record import Term
from slackwater.model.quantities import Resources

FUNCTION = "slackwater.colocation.domain.offer:decide"


@dataclass(frozen=True, slots=True)
class Decided:
    """The value to be in force, the terms behind it, and the gate afterwards."""

    value: int
    terms: tuple[Term, ...]
    gate: Gate


def decide_resource(resource: str, snapshot: NodeSnapshot, strategy: Strategy, gate: Gate, window: int) -> Decided:
    """`cpu` in milli-cores or `memory` in bytes. `window` is the end of the usage's window, seconds since 1970."""
    computed = compute(resource, snapshot, strategy)
    left, ageing = aged(computed.offered, snapshot, strategy)
    value, after = pass_gate(
        gate,
        left,
        ceiling=computed.ceiling,
        window=window,
        degraded=degraded_because(snapshot, strategy) is not None,
        strategy=strategy,
    )
    terms = computed.terms + ageing
    if value != left:
        note = f"{left} computed; the published value holds until a change lasts or passes the threshold"
        terms += (Term(name="hysteresis", value=value - left, note=note),)
    return Decided(value, terms, after)


def decide(resource: str, snapshot: dict[str, Any], strategy: dict[str, Any], gate: dict[str, Any], window: int) -> int:
    """Repeat a recorded decision from the JSON of its record."""
    rebuilt = Strategy(**{**strategy, "reserved": Resources(**strategy["reserved"])})
    return decide_resource(resource, snapshot_from_json(snapshot), rebuilt, Gate(**gate), window).value


def replay_arguments(
    resource: str, snapshot: NodeSnapshot, strategy: Strategy, gate: Gate, window: int
) -> dict[str, Any]:
    """The JSON with which `decide` gives the same result; pods of lower tiers play no part and are left out."""
    return {
        "resource": resource,
        "snapshot": snapshot_to_json(replace(snapshot, pods=_counted(snapshot.pods))),
        "strategy": asdict(strategy),
        "gate": asdict(gate),
        "window": window,
    }


def _counted(pods: Sequence[PodUse]) -> tuple[PodUse, ...]:
    return tuple(pod for pod in pods if pod.tier in ("prod", "mid"))


def snapshot_to_json(snapshot: NodeSnapshot) -> dict[str, Any]:
    """Written out: `dataclasses.asdict` copies every value deeply, which was a fifth of what colocation does."""
    return {
        "capacity": _plain(snapshot.capacity),
        "reserved": _plain(snapshot.reserved),
        "pods": [
            {
                "uid": pod.uid,
                "tier": pod.tier,
                "qos": pod.qos,
                "request": _plain(pod.request),
                "usage": _plain(pod.usage),
                "predicted": _plain(pod.predicted),
                "cold": pod.cold,
            }
            for pod in snapshot.pods
        ],
        "system": _plain(snapshot.system),
        "system_is_current": snapshot.system_is_current,
        "age_seconds": snapshot.age_seconds,
        "lost": snapshot.lost,
    }


def _plain(amount: Resources | None) -> dict[str, int] | None:
    return None if amount is None else {"cpu_milli": amount.cpu_milli, "memory_bytes": amount.memory_bytes}


def snapshot_from_json(document: dict[str, Any]) -> NodeSnapshot:
    """The inverse."""
    return NodeSnapshot(
        **{
            **document,
            "capacity": Resources(**document["capacity"]),
            "reserved": Resources(**document["reserved"]),
            "system": _resources(document["system"]),
            "pods": tuple(_pod(pod) for pod in document["pods"]),
        }
    )


def _pod(document: dict[str, Any]) -> PodUse:
    return PodUse(
        **{
            **document,
            "request": Resources(**document["request"]),
            "usage": _resources(document["usage"]),
            "predicted": _resources(document["predicted"]),
        }
    )


def _resources(document: dict[str, int] | None) -> Resources | None:
    return None if document is None else Resources(**document)
