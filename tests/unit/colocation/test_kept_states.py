"""A state that is taken apart for the store is the same when it is put together."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from drawn import apps, pods, resources, zones
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from slackwater.colocation.adapters.states import facts_of, kept_of, state_of
from slackwater.offers.node import InputSource, KnownPeak, NodeState
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.strategy_layers import NodeOverrides

instants = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
sources = st.none() | st.builds(InputSource, st.text(max_size=9), instants)
words = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
states = st.builds(
    NodeState,
    node=st.text(min_size=1, max_size=9),
    capacity=resources,
    described_by=sources,
    pods=st.lists(pods, max_size=3).map(tuple),
    system=st.none() | resources,
    peaks=st.dictionaries(st.text(max_size=9), st.builds(KnownPeak, resources, st.booleans()), max_size=3),
    used_by=sources,
    cpu=st.builds(PublishGate),
    words=st.builds(NodeOverrides, words, words),
    zones=st.dictionaries(st.text(max_size=3), resources, max_size=2),
    strategies=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    numa=st.lists(zones, max_size=2).map(tuple),
    host_apps=st.lists(apps, max_size=2).map(tuple),
    told_by=sources,
)


@given(states)
def test_taken_apart_and_put_together_a_state_is_the_same(state: NodeState) -> None:
    facts, held = kept_of(state)
    assert state_of(facts, held) == state
    assert facts_of(facts).pods == ()
    assert facts_of(facts).peaks == {}
    whole = json.loads(facts) | json.loads(held)
    assert TypeAdapter(NodeState).validate_python(whole) == state, "as it is written, another reader has it, too"


def test_a_node_that_has_just_appeared_holds_nothing() -> None:
    assert state_of(kept_of(NodeState("n"))[0], "{}") == NodeState("n")
