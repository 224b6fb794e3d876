"""What services say they consume and publish, against contracts/streams.yaml."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pytest
from sources import sources

from slackwater.bus.admin.streams import load
from slackwater.events.registry import BROADCASTS, EVENTS

BLOCKS = "agent.block_changed"
"""Watched by the bus itself, which leaves unread what blocked agents publish."""
READ_WITHOUT_CONSUMER = {
    ("agent", "intent.declared"),  # watched: only the last document per node counts
    ("agent", "lease.renewed"),  # a broadcast: no stream stores it
    *((service, BLOCKS) for service in ("colocation", "console", "descheduler", "ensurance", "ingestion")),
    *((service, BLOCKS) for service in ("kubernetes", "migration", "prediction", "quota")),
    ("kubernetes", "resources.offered"),  # watched: only the last offer per node counts
    ("kubernetes", "intent.declared"),  # watched: the last document per node and writer counts
    ("kubernetes", "node.described"),
    ("kubernetes", "node.scheduling_changed"),
    ("kubernetes", "disruption_budget.changed"),  # watched: it compares what was published with its copy
    # watched too: every replica folds the whole cluster
    *(("quota", event) for event in ("node.described", "node.deleted", "node.liveness_changed")),
    *(("quota", event) for event in ("node.scheduling_changed", "resources.offered", "node.reserved")),
    *(("migration", event) for event in ("node.described", "node.deleted", "node.liveness_changed", "intent.observed")),
    *(("migration", event) for event in ("node.scheduling_changed", "resources.offered", "usage.windowed")),
    ("migration", "peak.predicted"),
    ("migration", "disruption_budget.changed"),
    *(("descheduler", event) for event in ("node.described", "node.deleted", "node.liveness_changed")),
    *(("descheduler", event) for event in ("node.scheduling_changed", "resources.offered", "peak.predicted")),
    *(("descheduler", event) for event in ("usage.windowed", "waterline.crossed", "reclaim.requested")),
    ("descheduler", "migration.changed"),
    ("descheduler", "resource.changed"),  # watched: modes of pools, for what plans say
    # the bus reads the roster of a node when a report counts by it; quota, descheduler and migration watch them
    *((service, "pods.rostered") for service in ("console", "descheduler", "ensurance")),
    *((service, "pods.rostered") for service in ("ingestion", "migration", "quota")),
    ("prediction", "usage.windowed"),  # replayed from the position that the snapshot contains
}


@dataclass(frozen=True)
class Declared:
    """CONSUMES and PUBLISHES by service, and the durable consumers with the event of each."""

    consumes: Mapping[str, Collection[str]]
    publishes: Mapping[str, Collection[str]]
    consumers: Mapping[str, str]


def declared() -> Declared:
    found: dict[str, dict[str, Collection[str]]] = {"CONSUMES": {}, "PUBLISHES": {}}
    for source in sources("services"):
        if source.path.name != "__init__.py" or len(source.path.parts) != 4:
            continue
        for node in source.tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and target.id in found and isinstance(node, ast.Assign | ast.AnnAssign):
                found[target.id][source.part] = ast.literal_eval(node.value) if node.value else ()
    topology = load()
    consumes = {service: topology.consumed(service, events) for service, events in found["CONSUMES"].items()}
    return Declared(consumes, found["PUBLISHES"], {name: spec.event for name, spec in topology.consumers.items()})


def trouble(seen: Declared) -> Iterator[str]:
    known = {payload.TYPE for payload in (*EVENTS, *BROADCASTS)}
    wanted = {(service, event) for service, events in seen.consumes.items() for event in events}
    durable = {(name.removesuffix("-" + dashed(event)), event) for name, event in seen.consumers.items()}
    for service, event in sorted(wanted - durable - READ_WITHOUT_CONSUMER):
        yield f"{service} consumes {event}, but contracts/streams.yaml has no {service}-{dashed(event)}"
    for service, event in sorted(durable - wanted):
        yield f"contracts/streams.yaml: a consumer of {event} for {service}, which does not consume it"
    for service, event in sorted(READ_WITHOUT_CONSUMER - wanted):
        yield f"{service} does not read {event} any more: take it from the list"
    for service, event in sorted(READ_WITHOUT_CONSUMER & durable):
        yield f"{service} reads {event} without a consumer, yet there is one"
    of_agents = {payload.TYPE for payload in EVENTS if payload.FROM_AGENT}
    for service, events in sorted(seen.consumes.items()):
        if of_agents & set(events) and BLOCKS not in events and service != "agent":
            yield f"{service} reads what agents publish, and does not follow their blocks"
    for service, events in sorted(seen.publishes.items()):
        yield from (f"{service} publishes {event}, which has no schema" for event in events if event not in known)
    published = {event for events in seen.publishes.values() for event in events}
    yield from (f"no service publishes {event}" for event in sorted({event for _, event in wanted} - published))


def dashed(event: str) -> str:
    return event.replace(".", "-").replace("_", "-")


def test_every_declared_event_has_a_consumer_or_another_known_reader() -> None:
    assert list(trouble(declared())) == []


@pytest.mark.parametrize(
    "planted",
    [
        lambda d: Declared({**d.consumes, "colocation": (*d.consumes["colocation"], "effect.measured")}, *rest(d)),
        lambda d: Declared({**d.consumes, "console": ()}, *rest(d)),
        lambda d: Declared({**d.consumes, "prediction": ("node.described",)}, *rest(d)),
        lambda d: Declared({**d.consumes, "quota": [e for e in d.consumes["quota"] if e != BLOCKS]}, *rest(d)),
        lambda d: Declared(d.consumes, {**d.publishes, "console": ("tide.turned",)}, d.consumers),
        lambda d: Declared(d.consumes, {**d.publishes, "agent": ()}, d.consumers),
        lambda d: Declared(d.consumes, d.publishes, {**d.consumers, "agent-peak-predicted": "peak.predicted"}),
        lambda d: Declared(d.consumes, d.publishes, {**d.consumers, "prediction-usage-windowed": "usage.windowed"}),
    ],
)
def test_a_planted_gap_is_found(planted: Callable[[Declared], Declared]) -> None:
    assert list(trouble(planted(declared())))


def rest(seen: Declared) -> tuple[Mapping[str, Collection[str]], Mapping[str, str]]:
    return seen.publishes, seen.consumers
