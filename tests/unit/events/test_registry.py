"""Events are discovered: each module's own classes, in the order of their types, and no type twice."""

from __future__ import annotations

import pkgutil
from types import ModuleType
from typing import Any

import pytest

from slackwater import events
from slackwater.events import node_described, usage_reported, waterline_crossed
from slackwater.events.envelope import BroadcastPayload, Payload
from slackwater.events.registry import BROADCASTS, EVENTS, discover, event_modules

STREAMS = {
    "USAGE": {"usage.reported", "health.reported"},
    "URGENT": {"waterline.crossed"},
    "WINDOWS": {"usage.windowed"},
    "STATE": {
        "node.described",
        "node.liveness_changed",
        "peak.predicted",
        "resources.offered",
        "node.scheduling_changed",
        "strategy.followed",
        "agent.block_changed",
    },
    "INTENTS": {"intent.declared"},
    "AGENTS": {"intent.observed", "eviction.completed", "agent.decision_recorded"},
    "DECISIONS": {
        "decision.recorded",
        "effect.measured",
        "strategy.checked",
        "state.quarantined",
    },
}
"""Where the events of version 1 are stored. A new event is not listed; a listed one never moves, because the broker
would keep what it has under the former stream."""


def module(name: str, **values: Any) -> ModuleType:
    made = ModuleType(name)
    for value in values.values():
        value.__module__ = name
    vars(made).update(values)
    return made


def event(event_type: str, base: type[Payload] = Payload) -> type[Payload]:
    return type("Example", (base,), {"TYPE": event_type, "STREAM": "STATE", "__annotations__": {}})


def test_every_event_module_is_searched() -> None:
    found = {module.__name__.rpartition(".")[2] for module in event_modules()}
    modules = {module.name for module in pkgutil.iter_modules(events.__path__) if not module.ispkg}
    assert modules - found == {"envelope", "measures", "pod_columns", "registry", "serialized"}
    without = [module.__name__.rpartition(".")[2] for module in event_modules() if not discover([module])]
    of_reports, of_windows = ["joined_pods", "report_columns", "rosters"], ["window_columns", "windowed_usage"]
    assert without == [*of_reports, *of_windows], "what these events are made of"


def test_events_come_in_the_order_of_their_types() -> None:
    types = [payload.TYPE for payload in EVENTS]
    assert types == sorted(types)
    first, second = module("a", One=event("tide.turned")), module("b", One=event("claim.admitted"))
    assert [payload.TYPE for payload in discover([first, second])] == ["claim.admitted", "tide.turned"]


def test_imported_classes_and_bases_are_no_events_of_a_module() -> None:
    assert [payload.TYPE for payload in discover([waterline_crossed])] == ["waterline.crossed"]
    assert discover([module("a", Payload=type("Base", (Payload,), {}))]) == ()
    assert len(discover([node_described, usage_reported, usage_reported])) == 2


def test_a_type_that_two_modules_define_is_refused() -> None:
    first, second = module("a", One=event("tide.turned")), module("b", Two=event("tide.turned"))
    with pytest.raises(ValueError, match=r"b and a both define the event tide\.turned"):
        discover([first, second])


def test_broadcasts_are_apart() -> None:
    assert {payload.TYPE for payload in BROADCASTS} == {"lease.renewed"}
    assert not [payload for payload in EVENTS if issubclass(payload, BroadcastPayload)]


def test_an_event_stays_in_its_stream() -> None:
    streams = {payload.TYPE: payload.STREAM for payload in EVENTS}
    assert {name: streams.get(name) for names in STREAMS.values() for name in names} == {
        name: stream for stream, names in STREAMS.items() for name in names
    }


def test_what_an_event_declares_agrees() -> None:
    for payload in EVENTS:
        assert not (payload.COMMAND and payload.FROM_AGENT), payload
        assert not (payload.ALSO_FROM or payload.AGENT_KEYS) or payload.FROM_AGENT, payload
        assert bool(payload.AGENT_KEYS) is (payload.FROM_AGENT and payload.KEY_PARTS > 1), payload
