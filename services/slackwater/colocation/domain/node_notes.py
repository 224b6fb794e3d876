"""What a node's annotations say of its amounts, in the words of the field: what its operator keeps back, what its
kubelet gives to pods before any amplification, what its CPUs are worth, what other schedulers hold of batch.

What cannot be read is left out and named: a slip in one of them does not take the others along.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any

from slackwater.colocation.domain.publishing import ThirdParty, parse_ratio, prepared
from slackwater.colocation.domain.reservation import annotated_reservation, kubelet_reservation
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources, parse_cpu_milli, parse_memory_bytes
from slackwater.model.records import record

PREFIXES = ("slackwater.io/", "node.koordinator.sh/")
_SHOWN = 80
_TIERS = {"koord-batch": "batch", "koord-mid": "mid", "koord-prod": "prod", "koord-free": "free"}


@record(frozen=True, slots=True)
class NodeStatus:
    """What the status of a node says of batch: its offer in CPUs of the normal kind, cut to whole milli-cores, less
    what others hold of it. `before` is without the latter."""

    batch: Resources
    before: Resources
    cpu_ratio: str


@record(frozen=True, slots=True)
class NodeNotes:
    """`reserved` is kept back whatever else the node says, `allocatable` is raw (None: not said). `cpu_ratio` is what a
    CPU of this node is worth, as text. `problems` say what could not be read, and why."""

    reserved: Resources = field(default_factory=Resources)
    allocatable: Resources | None = None
    cpu_ratio: str = "1"
    third_parties: tuple[ThirdParty, ...] = ()
    problems: tuple[str, ...] = ()

    def status_of(self, batch: Resources) -> NodeStatus | None:
        """None where it is the offer itself."""
        if self.cpu_ratio == "1" and not self.third_parties:
            return None
        ratio = Decimal(self.cpu_ratio)
        cpu = prepared(batch.cpu_milli, "cpu", self.third_parties, ratio)
        memory = prepared(batch.memory_bytes, "memory", self.third_parties)
        return NodeStatus(
            Resources(cpu.value or 0, memory.value or 0), Resources(cpu.origin, memory.origin), self.cpu_ratio
        )


def notes_of(annotations: Mapping[str, str], capacity: Resources) -> NodeNotes:
    """`capacity` is what the machine has, before any amplification, and the most that anything here can be of."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, text, kind, read in _said(annotations):
        try:
            found.setdefault(kind, read(text))
        except InvalidInput as error:
            problems.append(f"annotation {name}: {error.message}")
    said: Resources | None = found.get("allocatable")
    raw = None if said is None else said.smaller_of(capacity)
    kept = Resources() if raw is None else kubelet_reservation(capacity, raw, raw)
    return NodeNotes(
        reserved=kept.larger_of(found.get("reserved", Resources())).smaller_of(capacity),
        allocatable=raw,
        cpu_ratio=found.get("cpu_ratio", "1"),
        third_parties=found.get("third_parties", ()),
        problems=tuple(problems),
    )


def _said(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str, Callable[[str], Any]]]:
    """Ours before the field's own."""
    for prefix in PREFIXES:
        for name, (kind, read) in _KNOWN.items():
            if (text := annotations.get(prefix + name)) is not None:
                yield prefix + name, text, kind, read


def _reservation(text: str) -> Resources:
    document = _object(text, "reservation")
    cpus = document.get("reservedCPUs") or ""
    return annotated_reservation(_amounts(document.get("resources") or {}, "resources"), str(cpus))


def _raw_allocatable(text: str) -> Resources:
    document = _object(text, "raw-allocatable")
    if not {"cpu", "memory"} <= document.keys():
        raise InvalidInput("raw-allocatable: cpu and memory must both be said", field="raw-allocatable")
    return _amounts(document, "raw-allocatable")


def _cpu_ratio(text: str) -> str:
    """1.20 as 1.2."""
    return f"{parse_ratio(text).normalize():f}"


def _third_parties(text: str) -> tuple[ThirdParty, ...]:
    allocations = _object(text, "third-party-allocations").get("allocations", [])
    if not isinstance(allocations, list) or not all(isinstance(one, Mapping) for one in allocations):
        raise InvalidInput("allocations: a list of objects with name, priority, resources", field="allocations")
    return tuple(_third_party(one) for one in allocations)


def _third_party(one: Mapping[str, Any]) -> ThirdParty:
    """CPU of batch is counted in milli-cores by the field: `2000`, or `2k`, are two cores."""
    tier, given = str(one.get("priority", "")), _mapping(one.get("resources") or {}, "resources")
    cpu, memory = (str(given.get(f"kubernetes.io/batch-{each}", 0)) for each in ("cpu", "memory"))
    taken = Resources(parse_memory_bytes(cpu, "batch-cpu"), parse_memory_bytes(memory, "batch-memory"))
    return ThirdParty(str(one.get("name", "")), _TIERS.get(tier, tier), taken)


def _amounts(given: Any, name: str) -> Resources:
    known = _mapping(given, name)
    cpu, memory = str(known.get("cpu", 0)), str(known.get("memory", 0))
    return Resources(parse_cpu_milli(cpu, f"{name}.cpu"), parse_memory_bytes(memory, f"{name}.memory"))


def _object(text: str, name: str) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(text), name)
    except (ValueError, RecursionError) as error:
        said = f"{text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"
        raise InvalidInput(f"{name}: {said} is no JSON ({error})", field=name) from None


def _mapping(given: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name}: {given!r} is no JSON object", field=name)
    return given


_KNOWN: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "reservation": ("reserved", _reservation),
    "raw-allocatable": ("allocatable", _raw_allocatable),
    "cpu-normalization-ratio": ("cpu_ratio", _cpu_ratio),
    "third-party-allocations": ("third_parties", _third_parties),
    "thirdPartyAllocations": ("third_parties", _third_parties),
}
