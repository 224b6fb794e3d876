"""Reads a node's annotations about amounts: reservations, raw allocatable, CPU normalisation and third-party use.

Annotation names are those of the field. Amounts are capped: more than a machine has is all of it, such as `16000` CPUs
where an `m` was forgotten. An unreadable annotation is reported and its last readable value stays, so
that a typing error does not give back what is reserved; the others still apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any

from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text
from slackwater.model.quantities import Resources, parse_cpu_milli, parse_memory_bytes
from slackwater.model.records import record
from slackwater.offers.reservation import annotated_reservation, kubelet_reservation
from slackwater.offers.reserved_amounts import ThirdParty, parse_ratio, prepared

PREFIXES = ("slackwater.io/", "node.koordinator.sh/")
_SHOWN = 80
_TIERS = {"koord-batch": "batch", "koord-mid": "mid", "koord-prod": "prod", "koord-free": "free"}


class PartlyRead(InvalidInput):
    """Some amounts of an annotation cannot be read; `amounts` are the others."""

    def __init__(self, message: str, amounts: Resources) -> None:
        super().__init__(message, field="reservation")
        self.amounts = amounts


@record(frozen=True, slots=True)
class NodeStatus:
    """The batch amounts in a node's status: the offer in normalised CPUs, cut to whole milli-cores, less third parties'
    allocations. `before` is without the latter.
    """

    batch: Resources
    before: Resources
    cpu_ratio: str


@record(frozen=True, slots=True)
class NodeNotes:
    """`reserved` is held back in any case, of which the annotation names `reserved_by_name`; `allocatable` is raw
    (None: not given). `cpu_ratio` is the CPU normalisation ratio as text. `problems` say what could not be read, why,
    and what counts instead.
    """

    reserved: Resources = field(default_factory=Resources)
    allocatable: Resources | None = None
    cpu_ratio: str = "1"
    third_parties: tuple[ThirdParty, ...] = ()
    problems: tuple[str, ...] = ()
    reserved_by_name: Resources = field(default_factory=Resources)

    def status_of(self, batch: Resources) -> NodeStatus | None:
        """Returns the status; None where it equals the offer."""
        if self.cpu_ratio == "1" and not self.third_parties:
            return None
        ratio = Decimal(self.cpu_ratio)
        cpu = prepared(batch.cpu_milli, "cpu", self.third_parties, ratio)
        memory = prepared(batch.memory_bytes, "memory", self.third_parties)
        return NodeStatus(
            Resources(cpu.value or 0, memory.value or 0), Resources(cpu.origin, memory.origin), self.cpu_ratio
        )


def notes_of(annotations: Mapping[str, str], capacity: Resources, before: NodeNotes | None = None) -> NodeNotes:
    """Returns the parsed annotations, each at most `capacity`, which is the machine's before any amplification. Of what
    cannot be read the value in `before` stays; of a reservation without one, the amounts that can be read."""
    parsed: dict[str, Any] = {}
    unread: list[tuple[str, str, InvalidInput]] = []
    problems: list[str] = []
    for name, text, kind, read in _known_annotations(annotations):
        try:
            parsed.setdefault(kind, read(text))
        except InvalidInput as error:
            unread.append((kind, name, error))
    last = _values_of(before or NodeNotes())
    for kind, name, refusal in unread:
        instead = ""
        if kind not in parsed and kind in last:
            parsed[kind], instead = last[kind], "; its last readable value stays"
        elif kind not in parsed and isinstance(refusal, PartlyRead):
            parsed[kind], instead = refusal.amounts, "; the amounts that can be read count"
        problems.append(f"annotation {name}: {refusal.message}{instead}")
    allocatable: Resources | None = parsed.get("allocatable")
    raw = None if allocatable is None else allocatable.smaller_of(capacity)
    of_kubelet = Resources() if raw is None else kubelet_reservation(capacity, raw, raw)
    named: Resources = parsed.get("reserved", Resources()).smaller_of(capacity)
    return NodeNotes(
        reserved=of_kubelet.larger_of(named),
        allocatable=raw,
        cpu_ratio=parsed.get("cpu_ratio", "1"),
        third_parties=parsed.get("third_parties", ()),
        problems=tuple(problems),
        reserved_by_name=named,
    )


def _values_of(notes: NodeNotes) -> dict[str, Any]:
    """Returns what was readable last, by kind of annotation; without what says nothing."""
    values = {
        "reserved": notes.reserved_by_name,
        "allocatable": notes.allocatable,
        "cpu_ratio": notes.cpu_ratio,
        "third_parties": notes.third_parties,
    }
    nothing = {"reserved": Resources(), "allocatable": None, "cpu_ratio": "1", "third_parties": ()}
    return {kind: value for kind, value in values.items() if value != nothing[kind]}


def allocatable_of(annotations: Mapping[str, str], allocatable: Resources) -> Resources:
    """Returns what a node's loads and requests are compared with: the annotated raw allocatable, at most `allocatable`;
    without one that can be read `allocatable` itself. `notes_of` reports what cannot be read."""
    for prefix in PREFIXES:
        text = annotations.get(f"{prefix}raw-allocatable")
        if text is None:
            continue
        try:
            return _raw_allocatable(text).smaller_of(allocatable)
        except InvalidInput:
            continue
    return allocatable


def _known_annotations(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str, Callable[[str], Any]]]:
    """Yields the known annotations; Slackwater's prefix comes before the field's."""
    for prefix in PREFIXES:
        for name, (kind, read) in _KNOWN.items():
            if (text := annotations.get(prefix + name)) is not None:
                yield prefix + name, text, kind, read


def _reservation(text: str) -> Resources:
    document, problems = _object(text, "reservation"), []
    amounts: Mapping[str, Any] = {}
    try:
        amounts = _mapping(document.get("resources") or {}, "resources")
    except InvalidInput as error:
        problems.append(error)
    readable = {"cpu": 0, "memory": 0}
    for resource, parse in (("cpu", parse_cpu_milli), ("memory", parse_memory_bytes)):
        amount = amounts.get(resource)
        try:
            readable[resource] = parse("0" if amount is None else str(amount), f"resources.{resource}", capped=True)
        except InvalidInput as error:
            problems.append(error)
    named = Resources(readable["cpu"], readable["memory"])
    cpus = document.get("reservedCPUs")
    try:
        named = annotated_reservation(named, "" if cpus is None else str(cpus))
    except InvalidInput as error:
        problems.append(error)
    if problems:
        raise PartlyRead("; ".join(error.message for error in problems), named)
    return named


def _raw_allocatable(text: str) -> Resources:
    document = _object(text, "raw-allocatable")
    if not {"cpu", "memory"} <= document.keys():
        raise InvalidInput("raw-allocatable: cpu and memory must both be given", field="raw-allocatable")
    return _amounts(document, "raw-allocatable")


def _cpu_ratio(text: str) -> str:
    """Normalises a ratio: 1.20 becomes 1.2."""
    return f"{parse_ratio(text).normalize():f}"


def _third_parties(text: str) -> tuple[ThirdParty, ...]:
    allocations = _object(text, "third-party-allocations").get("allocations", [])
    if not isinstance(allocations, list) or not all(isinstance(allocation, Mapping) for allocation in allocations):
        raise InvalidInput("allocations: must be a list of objects with name, priority, resources", field="allocations")
    return tuple(_third_party(allocation) for allocation in allocations)


def _third_party(allocation: Mapping[str, Any]) -> ThirdParty:
    """Parses one allocation. The field counts CPU of batch in milli-cores: `2000`, or `2k`, are two cores."""
    tier, amounts = str(allocation.get("priority", "")), _mapping(allocation.get("resources") or {}, "resources")
    cpu, memory = (str(amounts.get(f"kubernetes.io/batch-{resource}", 0)) for resource in ("cpu", "memory"))
    taken = Resources(parse_memory_bytes(cpu, "batch-cpu"), parse_memory_bytes(memory, "batch-memory"))
    return ThirdParty(str(allocation.get("name", "")), _TIERS.get(tier, tier), taken)


def _amounts(document: Any, name: str) -> Resources:
    amounts = _mapping(document, name)
    cpu, memory = str(amounts.get("cpu", 0)), str(amounts.get("memory", 0))
    return Resources(
        parse_cpu_milli(cpu, f"{name}.cpu", capped=True), parse_memory_bytes(memory, f"{name}.memory", capped=True)
    )


def _object(text: str, name: str) -> Mapping[str, Any]:
    try:
        return _mapping(parse_json_text(text), name)
    except ValueError as error:
        shown = f"{text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''}"
        raise InvalidInput(f"{name}: {shown} is not valid JSON ({error})", field=name) from None


def _mapping(document: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise InvalidInput(f"{name}: {document!r} must be a JSON object", field=name)
    return document


_KNOWN: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "reservation": ("reserved", _reservation),
    "raw-allocatable": ("allocatable", _raw_allocatable),
    "cpu-normalization-ratio": ("cpu_ratio", _cpu_ratio),
    "third-party-allocations": ("third_parties", _third_parties),
    "thirdPartyAllocations": ("third_parties", _third_parties),
}
AMOUNT_NOTES = tuple(_KNOWN)
"""Names of the annotations without their prefix."""
