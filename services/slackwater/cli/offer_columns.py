"""Offers, as `get` and `describe` print them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slackwater.cli.output import UNKNOWN, Item, TableColumn, age, clock_time, cpu, memory, table
from slackwater.model.plurals import counted, plural

if TYPE_CHECKING:
    from slackwater.cli.client import Reader

SUBJECTS = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")


def _cpu(tier: str) -> Callable[[Item], str]:
    return lambda offer: cpu(offer[tier]["cpu_milli"])


def _memory(tier: str) -> Callable[[Item], str]:
    return lambda offer: memory(offer[tier]["memory_bytes"])


def _zones(offer: Item) -> str:
    return ",".join(f"{zone['name']}={_slashed(zone['batch'])}" for zone in offer["zones"]) or UNKNOWN


def _slashed(part: Mapping[str, int]) -> str:
    return f"{cpu(part['cpu_milli'])}/{memory(part['memory_bytes'])}"


OFFER = (
    TableColumn("NODE", lambda offer: str(offer["node"])),
    TableColumn("BATCH-CPU", _cpu("batch"), right=True),
    TableColumn("BATCH-MEMORY", _memory("batch"), right=True),
    TableColumn("MID-CPU", _cpu("mid"), right=True),
    TableColumn("MID-MEMORY", _memory("mid"), right=True),
    TableColumn("AGE", lambda offer: age(offer["offered_at"], datetime.now(UTC)), right=True),
    TableColumn("DEGRADED", lambda offer: offer["degraded"] or UNKNOWN),
    TableColumn("POOL", lambda offer: offer.get("pool") or UNKNOWN, wide=True),
    TableColumn("REASON", lambda offer: offer["reason"] or UNKNOWN, wide=True),
    TableColumn("STRATEGIES", lambda offer: ",".join(offer["strategies"]) or UNKNOWN, wide=True),
    TableColumn("ZONES", _zones, wide=True),
    TableColumn("GENERATION", lambda offer: str(offer["generation"]), right=True, wide=True),
    TableColumn("DECISION", lambda offer: offer["decision_ids"].get("batch-cpu", UNKNOWN), wide=True),
)
RECORD = (
    TableColumn("SUBJECT", lambda item: str(item["subject"])),
    TableColumn("OFFERED", lambda item: str(item["offered"]), right=True),
    TableColumn("DECISION", lambda item: str(item["id"])),
)
ZONE = (
    TableColumn("ZONE", lambda zone: str(zone["name"])),
    TableColumn("BATCH-CPU", _cpu("batch"), right=True),
    TableColumn("BATCH-MEMORY", _memory("batch"), right=True),
)


def with_pools(offers: Sequence[Item], reader: Reader, whole: Callable[[Reader, str], Item]) -> Sequence[Item]:
    """Each offer with the pool of its node, because an offer does not contain it."""
    nodes = whole(reader, "/v1/nodes")["items"] if offers else []
    pools = {node["name"]: (node["facts"] or {}).get("pool") for node in nodes}
    return [{**offer, "pool": pools.get(offer["node"])} for offer in offers]


def why_none(offers: Sequence[Item], reader: Reader) -> str:
    """One line with the nodes by reason if the list is of all nodes and none offers CPU; else, and for a server that is
    too old, empty.
    """
    from slackwater.model.errors import NotFound

    if not offers or any(offer["batch"]["cpu_milli"] or offer["mid"]["cpu_milli"] for offer in offers):
        return ""
    try:
        use = reader.get("/v1/offers/use")
    except NotFound:
        return ""
    nodes = sum((use.get("no_offer") or {}).values())
    return str(use.get("why") or "") if nodes == len(offers) else ""


def sums_line(answer: Item) -> str:
    """The sum of a pool's offers, with its capacity."""
    sums = answer["sums"]
    capacity, batch, mid = sums["capacity"], sums["batch"], sums["mid"]
    nodes = f"{counted(sums['nodes'], 'node')} {plural(sums['offering'], 'offers', 'offer')}"
    text = (
        f"pool {answer['pool']}: {sums['offering']} of {nodes}, {sums['degraded']} degraded;"
        f" batch {cpu(batch['cpu_milli'])} and mid {cpu(mid['cpu_milli'])} of {cpu(capacity['cpu_milli'])} cores;"
        f" batch {memory(batch['memory_bytes'])} and mid {memory(mid['memory_bytes'])}"
        f" of {memory(capacity['memory_bytes'])}"
    )
    return text + (f"; {sums['overoffered']} NODES OFFER MORE THAN THEIR CAPACITY" if sums["overoffered"] else "")


def offer_lines(offer: Mapping[str, Any] | None, now: datetime) -> list[str]:
    """A node's offer in force: amounts by tier, the reason of its last change, its strategies, and the records that
    explain it.
    """
    if offer is None:
        return ["Offer:     none yet"]
    since = f"since {clock_time(offer['offered_at'])} ({age(offer['offered_at'], now)} ago)"
    lines = [f"Offer:     generation {offer['generation']}, {since}", f"  batch:   {_resources(offer['batch'])}"]
    lines.append(f"  mid:     {_resources(offer['mid'])}")
    if offer["reason"]:
        lines.append(f"  reason:  {offer['reason']}")
    if offer["degraded"]:
        lines.append(f"  degraded: {offer['degraded']}")
    if status := offer["status"]:
        batch, before = _resources(status["batch"]), _resources(status["before"])
        lines.append(f"  status:  batch {batch} (CPU times {status['cpu_ratio']}; {before} before the usage of others)")
    if offer["strategies"]:
        lines.append(f"  strategy: {' < '.join(offer['strategies'])}")
    if offer["zones"]:
        lines += ["  " + line for line in table(offer["zones"], ZONE, wide=False, headers=True)]
    records = [
        {"subject": subject, "offered": _amount(offer, subject), "id": offer["decision_ids"][subject]}
        for subject in SUBJECTS
        if subject in offer["decision_ids"]
    ]
    return lines + ["  " + line for line in table(records, RECORD, wide=False, headers=bool(records))]


def _amount(offer: Mapping[str, Any], subject: str) -> str:
    tier, _, resource = subject.partition("-")
    return cpu(offer[tier]["cpu_milli"]) if resource == "cpu" else memory(offer[tier]["memory_bytes"])


def _resources(part: Mapping[str, int]) -> str:
    return f"{cpu(part['cpu_milli'])} cores, {memory(part['memory_bytes'])}"
