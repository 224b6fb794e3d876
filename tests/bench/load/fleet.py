"""Reports of many nodes, encoded once: a message is a template for the node's number, sequence and time.

As with agents a report counts by a roster, which is a message of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.bench.load.wire import head_of

from slackwater.agent.domain.windows import summarize
from slackwater.agent.edge.events import Envelopes
from slackwater.agent.usecases.report import distribution, in_pages
from slackwater.bus.codec.cloudevents import encode
from slackwater.events.envelope import Event, subject_of
from slackwater.events.measures import PodUsage, Pressure, Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.pods_rostered import PodsRostered, subject_in
from slackwater.events.serialized import written
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import URGENT_TRIGGER, WaterlineCrossed, crossing_of
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos
from slackwater.model.time import SystemClock

GIB = 2**30
CPU_MILLI, MEMORY_BYTES = 64_000, 256 * GIB
BOOT = "boot-1"
SLOT = 0
_NODE = "node-@@@@@"
_STARTED = datetime(2026, 1, 5, 12, tzinfo=UTC)
_SAMPLED = datetime(2001, 2, 3, 4, 5, 6, 123456, tzinfo=UTC)
_SEQUENCE = 987654321
CALM, ABOVE = 0.01, 0.15
_STRIDE = 37
_PAGE, _SAMPLES = 4096, 5
_TIERS = (Tier.PROD, Tier.PROD, Tier.BATCH)


def node_name(number: int) -> str:
    return _NODE.replace("@@@@@", f"{number:05d}")


def described(number: int, at: datetime) -> NodeDescribed:
    """One node: 64 cores, 256 GiB."""
    facts = NodeFacts(
        name=node_name(number), pool="bench", capacity=Resources(CPU_MILLI, MEMORY_BYTES), reserved=Resources(),
        topology=CpuTopology(64, 32, 2, 2), kernel="6.1", cgroup_version="v2", driver="bench", agent_version="bench",
    )  # fmt: skip
    return NodeDescribed(facts=facts, boot_epoch=BOOT, described_at=at)


def report(pods: int, level: float, window_seconds: float, pressure: float = CALM) -> UsageReported:
    """The template of one node. `level` (0..1) is the load of the system and the pods, `pressure` (0..1) that of prod
    in the last second; above the waterline the report is urgent."""
    return UsageReported(
        node=_NODE,
        boot_epoch=BOOT,
        sequence=_SEQUENCE,
        sampled_at=_SAMPLED,
        window_seconds=window_seconds,
        node_usage=_usage(int(30_000 * level), int(100 * GIB * level)),
        system_usage=_usage(int(8_000 * level), int(16 * GIB * level)),
        node_pressure=Pressure(0.01, 0.0123, 0.05, 0.0, 0.001),
        prod_pressure=Pressure(pressure, 0.0123, 0.05, 0.0, 0.001),
        trigger="interval" if pressure == CALM else URGENT_TRIGGER,
        pods=tuple(_pod(number, level) for number in range(pods)),
    )


@dataclass(frozen=True, slots=True)
class Message:
    """A template split at its variable parts: node number, sequence, sample time, id."""

    head: bytes
    body: bytes

    def filled(self, number: int, sequence: int, sampled_at: datetime, identity: bytes) -> tuple[bytes, bytes]:
        """Head and body of one report."""
        node = b"%05d" % number
        moment = sampled_at.strftime("%Y-%m-%dT%H:%M:%S.%f").encode()
        head = self.head.replace(b"@@@@@", node).replace(_IDENTITY, identity).replace(_TIME, moment)
        body = self.body.replace(b"@@@@@", node).replace(b"%d" % _SEQUENCE, b"%d" % sequence, 1)
        return head, body.replace(_TIME, moment, 1)


_TIME = _SAMPLED.strftime("%Y-%m-%dT%H:%M:%S.%f").encode()
_IDENTITY = b"00000000-0000-7000-8000-000000000000"


def message(pods: int, level: float, window_seconds: float) -> Message:
    """A message as the agent encodes and addresses it."""
    return _cut(Envelopes(_NODE, SystemClock()).origin(report(pods, level, window_seconds)))


def roster(pods: int) -> Message:
    """The roster that all reports of so many pods count by."""
    template = report(pods, 0.5, 1.0)
    data = PodsRostered(
        node=_NODE, boot_epoch=BOOT, sequence=_SEQUENCE, rostered_at=_SAMPLED, slot=SLOT, roster=template.roster()
    )
    return _cut(Envelopes(_NODE, SystemClock()).origin(data))


def crossing(pods: int, level: float, window_seconds: float) -> tuple[Message, Message]:
    """A report above the default waterline, as usage.reported and as waterline.crossed."""
    event = Envelopes(_NODE, SystemClock()).origin(report(pods, level, window_seconds, ABOVE))
    crossed = crossing_of(event)
    assert crossed is not None
    return _cut(event), _cut(crossed)


def crosses(node: int, sequence: int, every: int) -> bool:
    """Whether a report is above: one of `every`, spread over time and nodes, not twice in a row per node. 0: never."""
    return every > 0 and (node + _STRIDE * sequence) % every == 0


def _cut(event: Event[Any]) -> Message:
    stamped, data = event.model_copy(update={"id": _IDENTITY.decode(), "time": _SAMPLED}), event.data
    body = data.columns(data.roster(), SLOT).model_dump_json() if isinstance(data, UsageReported) else data.body()
    encoded = encode(written(stamped, body))
    headers = {name: value.replace("=40", "@") for name, value in encoded.headers.items()}
    return Message(head_of(headers), encoded.body)


def subjects(nodes: int, *, urgent: bool = False) -> list[bytes]:
    """The subject of each node's reports, or of its crossings."""
    template: UsageReported = report(0, 0.5, 5.0)
    if urgent:
        template = WaterlineCrossed.model_construct(**dict(template))
    return [subject_of(template.model_copy(update={"node": node_name(n)})).encode() for n in range(nodes)]


def roster_subjects(nodes: int) -> list[bytes]:
    """The subject of each node's roster."""
    return [subject_in(node_name(number), SLOT).encode() for number in range(nodes)]


def _pod(number: int, level: float) -> PodUsage:
    tier = _TIERS[number % len(_TIERS)]
    pod = Pod(
        uid=f"6f2d{number:04d}-91c3-4b7e-8a55-0000000@@@@@",
        name=f"web-{number:02d}-7d9f8b6c5-@@@@@",
        namespace="shop",
        workload=f"shop/web-{number:02d}",
        tier=tier,
        qos=default_qos(tier),
        priority=DEFAULT_PRIORITY[tier],
        request=Resources(1500, 4 * GIB),
        started_at=_STARTED + timedelta(seconds=number),
    )
    usage = _usage(int((400 + 10 * number) * level), int((1 + number % 7 / 5) * GIB * level), number)
    waits = 0.0001 * (number % 9)
    return PodUsage(
        pod=pod, usage=usage, pressure=Pressure(2 * waits, waits, 5 * waits, 0.0, waits / 3), throttled_ratio=0.0
    )


def _usage(cpu_milli: int, memory_bytes: int, number: int = 0) -> Usage:
    cpu = [cpu_milli * (100 + share) // 100 for share in _shares(number)]
    memory = [memory_bytes * (1000 + share) // 1000 // _PAGE * _PAGE for share in _shares(number + 3)]
    return Usage(distribution(summarize(cpu, cpu[-1])), distribution(in_pages(summarize(memory, memory[-1]))))


def _shares(number: int) -> list[int]:
    """Five samples, from one fifth below to one fifth above, another one last for each number."""
    return [(17 * number + 11 * sample) % 41 - 20 for sample in range(_SAMPLES)]
