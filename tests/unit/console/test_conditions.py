"""Cordons of nodes as published, for as long as they count, in REST, on the pages and in `why`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from console_app import console_app
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.reports import report

from slackwater.console.domain.chain import chain_of
from slackwater.console.domain.conditions import as_of, closing
from slackwater.console.domain.formatting import outcome
from slackwater.console.domain.views import NodeCondition, NodeView
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Replay, Term
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import DuplicateAgent, NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.model.nodes import Liveness

NOW = EPOCH + timedelta(hours=10)
"""As the clock of the fixtures stands."""


def told(*, closed: bool = True, second: float = 0, valid: float = 120, node: str = "n1") -> Event[Any]:
    at = NOW + timedelta(seconds=second)
    data = NodeSchedulingChanged(
        node=node,
        closed=closed,
        reason="scheduling_waterline_crossed" if closed else "scheduling_calm",
        decision_id="d1",
        rules=("gate.full",),
        since=at,
        told_at=at,
        valid_until=at + timedelta(seconds=valid) if closed else None,
    )
    return event_of(data, source="test", time=at)


def record_of(*, closed: bool = True) -> DecisionRecord:
    reason = Reason.SCHEDULING_WATERLINE_CROSSED if closed else Reason.SCHEDULING_CALM
    return DecisionRecord(
        id="d1",
        kind=DecisionKind.SCHEDULING,
        node="n1",
        subject="scheduling",
        service="ensurance",
        rule="gate.full",
        reason=reason,
        decided_at=NOW,
        trigger_event_id=None,
        inputs=(),
        terms=(Term(name="gate.full", value=int(closed), note="prod_cpu_pressure 0.3 is above 0.1"),),
        result=int(closed),
        unit="closing rules",
        replay=Replay(function="m:f", arguments={}),
    )


@pytest.fixture
async def api(model: MemoryReadModel, streams: Streams, clock: FakeClock) -> AsyncIterator[httpx2.AsyncClient]:
    app = console_app(model, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def condition(api: httpx2.AsyncClient) -> Any:
    node = (await api.get("/v1/nodes/n1")).json()
    listed = (await api.get("/v1/nodes")).json()["items"][0]
    assert node["conditions"] == listed["conditions"]
    return node["conditions"][0] if node["conditions"] else None


async def test_rest_shows_a_closing_for_as_long_as_it_counts(
    api: httpx2.AsyncClient, record: RecordEvents, clock: FakeClock
) -> None:
    await record.scheduling_changed([told()])
    found = await condition(api)
    assert (found["type"], found["status"], found["decision_id"]) == ("SchedulingClosed", "True", "d1")
    assert found["message"] == "takes no new pods because of gate.full"
    await clock.advance(121)
    lapsed = await condition(api)
    assert (lapsed["status"], lapsed["reason"], lapsed["valid_until"]) == ("False", "lapsed", None)
    await record.scheduling_changed([told(second=130)])
    assert (await condition(api))["status"] == "True"
    await record.scheduling_changed([told(closed=False, second=140)])
    assert (await condition(api))["reason"] == "scheduling_calm"


async def test_the_newest_condition_stays_in_any_order_of_arrival(
    api: httpx2.AsyncClient, record: RecordEvents
) -> None:
    await record.scheduling_changed([told(closed=False, second=10), told()])
    assert (await condition(api))["status"] == "False"


async def test_a_node_that_was_never_closed_has_no_condition(api: httpx2.AsyncClient, model: MemoryReadModel) -> None:
    await model.save_liveness([("n1", "fresh", NOW)])
    assert await condition(api) is None


async def test_the_pages_say_so_and_lead_to_the_record(
    api: httpx2.AsyncClient, record: RecordEvents, clock: FakeClock
) -> None:
    await record.scheduling_changed([told()])
    await record.decision_recorded([event_of(DecisionRecorded(record=record_of()), source="t", time=NOW)])
    page = (await api.get("/nodes/n1")).text
    assert "cordoned</span>" in page
    assert "/decisions/d1" in page
    assert "takes no new pods" in page
    assert "badge closed" in (await api.get("/nodes")).text
    await clock.advance(121)
    assert "cordoned</span>" not in (await api.get("/nodes/n1")).text
    assert "badge closed" not in (await api.get("/nodes")).text


async def test_a_second_agent_is_a_condition_and_a_notice_until_it_lapses(
    api: httpx2.AsyncClient, record: RecordEvents, clock: FakeClock
) -> None:
    until = NOW + timedelta(seconds=150)
    change = NodeLivenessChanged(
        node="n1",
        liveness=Liveness.FRESH,
        previous=Liveness.FRESH,
        last_report_at=NOW,
        changed_at=NOW,
        duplicate=DuplicateAgent(since=NOW - timedelta(seconds=30), until=until),
    )
    await record.scheduling_changed([told()])
    await record.liveness_changed([event_of(change, source="t", time=NOW)])
    found = {one["type"]: one for one in (await api.get("/v1/nodes/n1")).json()["conditions"]}
    assert found.keys() == {"SchedulingClosed", "DuplicateAgent"}
    assert (found["DuplicateAgent"]["status"], found["DuplicateAgent"]["reason"]) == ("True", "duplicate_agent")
    page = (await api.get("/nodes/n1")).text
    assert "two agents</span>" in page
    assert "two agents have the node name n1" in page
    assert "cordoned</span>" in page
    again = change.model_copy(update={"changed_at": NOW + timedelta(seconds=5), "duplicate": None})
    await record.liveness_changed([event_of(again, source="t", time=NOW)])
    assert "two agents</span>" in (await api.get("/nodes/n1")).text, "a change of liveness says nothing of it"
    await clock.advance(151)
    assert "two agents</span>" not in (await api.get("/nodes/n1")).text
    found = {one["type"]: one for one in (await api.get("/v1/nodes/n1")).json()["conditions"]}
    assert (found["DuplicateAgent"]["status"], found["DuplicateAgent"]["message"]) == ("False", "one agent reports")


async def test_values_that_an_agent_leaves_out_are_shown_as_long_as_its_reports_name_them(
    api: httpx2.AsyncClient, record: RecordEvents, clock: FakeClock
) -> None:
    named = ("pod shop/web: request.cpu_milli: 16000000 is capped at 10000000", "node: labels[<b>]: left out")
    sent = report("n1", 1, NOW).model_copy(update={"left_out": named})
    await record.usage_reported([event_of(sent, source="t", time=NOW)])
    (found,) = (await api.get("/v1/nodes/n1")).json()["conditions"]
    assert (found["type"], found["status"], found["message"]) == ("ValuesLeftOut", "True", "; ".join(named))
    page = (await api.get("/nodes/n1")).text
    assert named[0] in page
    assert "<b>" not in page
    await clock.advance(61)
    assert named[0] not in (await api.get("/nodes/n1")).text
    (found,) = (await api.get("/v1/nodes/n1")).json()["conditions"]
    assert (found["status"], found["message"]) == ("False", "all values are reported as they are")


async def test_why_explains_it_with_its_rules(api: httpx2.AsyncClient, record: RecordEvents) -> None:
    await record.scheduling_changed([told()])
    await record.decision_recorded([event_of(DecisionRecorded(record=record_of()), source="t", time=NOW)])
    why = (await api.get("/v1/why", params={"node": "n1", "subject": "scheduling"})).json()
    assert (why["result"], why["unit"], why["adds_up"]) == (1, "closing rules", True)
    assert why["waterfall"][0]["note"] == "prod_cpu_pressure 0.3 is above 0.1"
    listed = (await api.get("/v1/decisions", params={"kind": "scheduling"})).json()["items"]
    assert [each["id"] for each in listed] == ["d1"]


def test_a_closing_in_words() -> None:
    assert outcome(record_of()) == "takes no new pods"
    assert outcome(record_of(closed=False)) == "takes new pods"
    would = record_of().model_copy(update={"reason": Reason.SCHEDULING_OBSERVED_ONLY})
    assert outcome(would) == "would take no new pods"
    assert chain_of(record_of(), trigger=None, observations=(), effect=None).complete


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_condition_never_counts_longer_than_it_says(valid: int, later: int) -> None:
    one = NodeCondition("SchedulingClosed", "True", "r", "m", NOW, NOW, NOW + timedelta(seconds=valid), "d", ("p.r",))
    node = NodeView("n", conditions=(one,))
    seen = as_of(node, NOW + timedelta(seconds=later))
    assert (closing(seen) is not None) == (later <= valid)
    assert as_of(seen, NOW + timedelta(seconds=later)) == seen
    opened = replace(node, conditions=(replace(one, status="False", valid_until=None),))
    assert as_of(opened, NOW + timedelta(seconds=later)) == opened
