"""A value of an enum that this version does not know loses its item or its field, or the event; never a neighbour."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.contract.samples import sample_of
from tests.support.clock import EPOCH
from tests.support.reports import host_app, pod, pod_usage, report

from slackwater.events.codec.body import Undecodable, decode_body, validated
from slackwater.events.codec.unknown_values import Lost, UnknownValue
from slackwater.events.envelope import Payload
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pod_columns import by_columns
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.events.report_columns import InvalidColumns
from slackwater.events.rosters import no_roster
from slackwater.events.usage_reported import UsageReported
from slackwater.model.placement_rules import LabelOperator, LabelRequirement, PlacementRules

NEWER = "of-a-newer-version"
ALL: tuple[type[Payload], ...] = (*EVENTS, *BROADCASTS)
Place = tuple[str | int, ...]


def places(document: Any, here: Place = ()) -> Iterator[Place]:
    """Every text in a document."""
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    for key, value in items:
        if isinstance(value, str):
            yield (*here, key)
        yield from places(value, (*here, key))


def changed(document: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy with a value at a place."""
    found = copy.deepcopy(document)
    holder: Any = found
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return found


def enum_places(payload: type[Payload]) -> list[Place]:
    """Where a sample of the event has a value of an enum, as pydantic says."""
    sample = sample_of(payload)
    found = []
    for place in places(sample):
        try:
            payload.from_document(changed(sample, place, NEWER), no_roster)
        except ValidationError as error:
            if {each["type"] for each in error.errors()} & {"enum", "literal_error"}:
                found.append(place)
        except InvalidColumns:
            continue
    return found


CASES = [(payload, place) for payload in ALL for place in enum_places(payload)]


def test_there_are_such_values() -> None:
    assert len(CASES) >= 20, CASES
    assert {UsageReported, NodeLivenessChanged} <= {payload for payload, _ in CASES}


@pytest.mark.parametrize(("payload", "place"), CASES, ids=lambda case: str(getattr(case, "TYPE", case)))
def test_the_event_is_read_without_it_or_refused_by_name(payload: type[Payload], place: Place) -> None:
    body = json.dumps(changed(sample_of(payload), place, NEWER)).encode()
    lost, refusal, read = Lost(), None, None
    try:
        read = decode_body(payload, body, lost=lost)
    except Undecodable as error:
        refusal = error
    if read is None:
        assert refusal is not None
        assert refusal.code == "unknown_value", refusal.message
        assert f"{payload.TYPE}.v{payload.VERSION}" in refusal.message
        assert NEWER in refusal.message
        assert "a newer version" in refusal.message
        assert not any(isinstance(step, int) for step in place), "of a list only the item is lost"
        return
    assert [(each.value, count) for each, count in lost.items()] == [(NEWER, 1)]
    assert NEWER not in read.body()
    assert validated(payload, body) == read


def test_what_stands_for_the_event_loses_it() -> None:
    assert (NodeLivenessChanged, ("liveness",)) in CASES
    document = changed(sample_of(NodeLivenessChanged), ("liveness",), "asleep")
    with pytest.raises(Undecodable, match=r"node.liveness_changed.v1: liveness is 'asleep', which this version"):
        decode_body(NodeLivenessChanged, json.dumps(document).encode())
    document = changed(sample_of(NodeLivenessChanged), ("previous",), "asleep")
    assert decode_body(NodeLivenessChanged, json.dumps(document).encode()).previous is None


def test_a_field_with_a_default_loses_its_value_alone() -> None:
    sent = json.loads(report("n", 1, EPOCH, pods=[pod_usage("a")]).body())
    lost = Lost()
    read = decode_body(UsageReported, json.dumps({**sent, "trigger": "tide", "cpu_weights": "x"}).encode(), lost=lost)
    assert (read.trigger, read.cpu_weights, len(read.pods)) == ("interval", None, 1)
    assert set(lost) == {UnknownValue("trigger", "tide"), UnknownValue("cpu_weights", "x")}
    peak = changed(sample_of(PeakPredicted), ("cause",), "moon")
    assert decode_body(PeakPredicted, json.dumps(peak).encode()).cause == ""


def test_rules_with_an_unknown_operator_count_as_unread() -> None:
    rules = PlacementRules(
        {"zone": "a"}, affinity=((LabelRequirement("k", LabelOperator.IN, ("v",)),),), local_storage=True
    )
    sent = report("n", 1, EPOCH, pods=[pod_usage("a", rules=rules), pod_usage("b")])
    body = sent.body().replace('"In"', '"Near"').encode()
    lost = Lost()
    first, second = decode_body(UsageReported, body, lost=lost).pods
    assert first.pod.rules == PlacementRules(unread=("unknown-values",), local_storage=True)
    assert second == sent.pods[1]
    assert lost == {UnknownValue("own_roster.pods[].rules.affinity[][].operator", "Near"): 1}


def test_what_is_wrong_beside_it_is_still_refused() -> None:
    sent = json.loads(report("n", 1, EPOCH, pods=[pod_usage("a")]).body())
    sent["own_roster"]["pods"][0]["tier"] = NEWER
    with pytest.raises(Undecodable) as refusal:
        decode_body(UsageReported, json.dumps({**sent, "sequence": -1}).encode())
    assert (refusal.value.code, refusal.value.field) == ("invalid_payload", "sequence")
    sent["own_roster"]["pods"].append(5)
    with pytest.raises(Undecodable) as refusal:
        decode_body(UsageReported, json.dumps(sent).encode())
    assert refusal.value.code == "invalid_payload"


@given(
    st.lists(st.sampled_from(["prod", "batch", NEWER, ""]), max_size=6),
    st.lists(st.sampled_from(["LS", "BE", NEWER]), min_size=6, max_size=6),
    st.sampled_from(["interval", "waterline", NEWER]),
    st.lists(st.sampled_from(["prod", NEWER]), max_size=2),
)
def test_every_way_of_reading_a_report_finds_the_same(
    tiers: list[str], classes: list[str], trigger: str, apps: list[str]
) -> None:
    pods = [pod_usage(f"p{number}", cpu_milli=100 + number) for number in range(len(tiers))]
    sent = report("n", 1, EPOCH, pods=pods, host_apps=[host_app(f"a{number}") for number in range(len(apps))])
    sent = sent.model_copy(update={"failed_pods": tuple(pod(f"f{number}") for number in range(len(tiers)))})
    document = {**json.loads(sent.body()), "trigger": trigger}
    for holders in (document["own_roster"]["pods"], document["own_roster"].get("failed_pods", [])):
        for holder, tier, qos in zip(holders, tiers, classes, strict=False):
            holder.update(tier=tier, qos=qos)
    for app, tier in zip(document.get("host_apps", []), apps, strict=True):
        app["tier"] = tier
    body = json.dumps(document).encode()
    found = decode_body(UsageReported, body)
    known = [tier in ("prod", "batch") and qos != NEWER for tier, qos in zip(tiers, classes, strict=False)]
    for read in (found, validated(UsageReported, body)):
        shown = [(each.pod.uid, each.usage.cpu_milli.avg) for each in read.pods]
        assert shown == [(f"p{n}", 100 + n) for n, is_known in enumerate(known) if is_known]
        assert [each.uid for each in read.failed_pods] == [f"f{n}" for n, is_known in enumerate(known) if is_known]
        assert len(read.host_apps) == apps.count("prod")
        columns, plain = by_columns(read.pods), by_columns(tuple(validated(UsageReported, body).pods))
        assert columns.cpu.tolist() == plain.cpu.tolist()
        assert list(columns.described) == plain.described
