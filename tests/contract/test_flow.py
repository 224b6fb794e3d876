"""The services' declarations, the registry and streams.yaml tell one story."""

from __future__ import annotations

import pytest
from contracts import generate

from slackwater.bus.admin.streams import load
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.runtime.service_list import service_list

FLOWS = {flow.service: flow for flow in generate.flows()}
TYPES = {payload.TYPE for payload in (*EVENTS, *BROADCASTS)}
CONSUMERS = load().consumers
SERVICES = (*service_list().deployed, *service_list().node_services)
EVERY_DECIDER_PUBLISHES = {"health.reported", "decision.recorded", "state.quarantined", "resource.changed"}
"""Each about itself."""
REPEATED = {
    "node.described": {"agent", "ingestion"},
    "eviction.completed": {"agent", "kubernetes"},
    "intent.declared": {"ensurance", "migration"},
    "reclaim.requested": {"migration", "quota"},
}
"""A node that is back after its deletion is described by ingestion, with what its agent said last. Of a node whose
evictions are the API server's, kubernetes completes them. Each writer of intents declares its own document, and moves
ask for leave to evict as reclaims do."""


@pytest.mark.parametrize("flow", FLOWS.values(), ids=lambda flow: flow.service)
def test_a_service_names_only_events_that_exist(flow: generate.Flow) -> None:
    assert set(flow.consumes) | set(flow.publishes) <= TYPES


@pytest.mark.parametrize("event", sorted({event for flow in FLOWS.values() for event in flow.consumes}))
def test_every_consumed_event_has_exactly_one_publisher(event: str) -> None:
    publishers = [flow.service for flow in FLOWS.values() if event in flow.publishes]
    if not publishers and (missing := set(SERVICES) - FLOWS.keys()):
        pytest.skip(f"not built yet: {', '.join(sorted(missing))}")
    if event in EVERY_DECIDER_PUBLISHES:
        assert publishers
    elif event in REPEATED:
        assert set(publishers) == REPEATED[event]
    else:
        assert len(publishers) == 1


@pytest.mark.parametrize("name", sorted(CONSUMERS))
def test_a_consumer_is_named_after_its_service_and_event_and_its_service_says_so(name: str) -> None:
    event = CONSUMERS[name].event
    service = name.split("-", 1)[0]
    assert name == f"{service}-{event.replace('.', '-').replace('_', '-')}"
    if service not in FLOWS:
        pytest.skip(f"service {service} is not built yet")
    assert event in FLOWS[service].consumes


def test_every_service_that_declares_itself_is_known_here() -> None:
    assert FLOWS.keys() <= set(SERVICES)
