"""How the command line shows whether a node is cordoned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from slackwater.cli.condition_columns import duplicate_lines, left_out_lines, scheduling, scheduling_lines
from slackwater.cli.events import words_of

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def node(status: str, until: str | None = "2026-01-05T12:02:00Z") -> dict[str, Any]:
    one = {
        "type": "SchedulingClosed",
        "status": status,
        "reason": "scheduling_waterline_crossed",
        "since": "2026-01-05T12:00:00Z",
        "valid_until": until,
        "rules": ["gate.full"],
    }
    return {"name": "n1", "conditions": [one]}


def test_a_node_is_open_unless_its_condition_says_otherwise() -> None:
    assert [scheduling(each) for each in ({}, {"conditions": []}, node("False"), node("True"))] == [
        "schedulable", "schedulable", "schedulable", "cordoned",
    ]  # fmt: skip


def test_describe_names_the_rules_and_how_to_ask_why() -> None:
    now = NOON + timedelta(seconds=5)
    (line,) = scheduling_lines(node("True"), now)
    assert line == (
        "Placement: cordoned since 2026-01-05 12:00:00Z (5s), scheduling_waterline_crossed, by gate.full; expires "
        "unless renewed at 2026-01-05 12:02:00Z; slackwater why node/n1 scheduling"
    )
    assert scheduling_lines({}, now) == ["Placement: schedulable"]
    assert scheduling_lines(node("False", None), now)[0].startswith(
        "Placement: schedulable since 2026-01-05 12:00:00Z (5s)"
    )


def test_describe_names_a_second_agent_while_there_is_one() -> None:
    one = {
        "type": "DuplicateAgent",
        "status": "True",
        "since": "2026-01-05T12:00:00Z",
        "message": "two agents have the node name n1: stop one",
    }
    now, found = NOON + timedelta(seconds=5), {"name": "n1", "conditions": [one]}
    said = "Duplicate: since 2026-01-05 12:00:00Z (5s), two agents have the node name n1: stop one"
    assert duplicate_lines(found, now) == [said]
    assert scheduling_lines(found, now) == ["Placement: schedulable"]
    assert duplicate_lines({"name": "n1", "conditions": [{**one, "status": "False"}]}, now) == []
    data = {"liveness": "fresh", "previous": "fresh", "duplicate": {"since": "2026-01-05T12:00:00Z"}}
    words = words_of({"type": "node.liveness_changed", "data": data})[1]
    assert words == "two agents report as this node since 2026-01-05 12:00:00Z; one is refused"
    change = {"liveness": "stale", "previous": "fresh"}
    assert words_of({"type": "node.liveness_changed", "data": change})[1] == "fresh -> stale"


def test_describe_names_each_value_that_is_not_reported_as_it_is() -> None:
    one = {"type": "ValuesLeftOut", "status": "True", "message": "pod a/b: priority: 1; node: labels[c]: left out"}
    found = {"name": "n1", "conditions": [one]}
    assert left_out_lines(found) == ["Left out:  pod a/b: priority: 1", "Left out:  node: labels[c]: left out"]
    assert left_out_lines({"name": "n1", "conditions": [{**one, "status": "False"}]}) == []
    assert left_out_lines({"name": "n1"}) == []


def test_events_say_it_in_words() -> None:
    data = {"closed": True, "rules": ["gate.full"], "valid_until": "2026-01-05T12:02:00Z", "reason": "r"}
    said = words_of({"type": "node.scheduling_changed", "data": data})[1]
    assert said == "cordoned until 2026-01-05 12:02:00Z because of gate.full"
    opened = {**data, "closed": False, "valid_until": None}
    assert words_of({"type": "node.scheduling_changed", "data": opened})[1] == "schedulable (r)"
