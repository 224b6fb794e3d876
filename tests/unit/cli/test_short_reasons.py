"""What tables say in place of a dash: the state of policies without a status, why nothing is offered, later steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from slackwater.cli.client import Reader
from slackwater.cli.decision_text import later_steps
from slackwater.cli.list_kinds import POLICY
from slackwater.cli.offer_columns import why_none
from slackwater.model.errors import NotFound

WHY = "no CPU is offered: 2 nodes without slack above prod and reserve"


def row(document: Mapping[str, Any]) -> list[str]:
    return [column.text(dict(document)) for column in POLICY]


def document(kind: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "default", "generation": 1, **metadata}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "state", "author"),
    [
        (document("NodeQOS", {"mode": "observe"}, changedBy=""), "in force: observe", "installation"),
        (document("NodeQOS", {"mode": "throttle"}, generation=2, changedBy="ana"), "in force: throttle", "ana"),
        (document("AvoidanceAction", {}, generation=3, changedBy=""), "in force", "-"),
    ],
)
def test_a_policy_without_a_status_is_in_force_in_its_mode(found: dict[str, Any], state: str, author: str) -> None:
    assert row(found)[3:] == [state, author]


class Server:
    def __init__(self, use: dict[str, Any] | None) -> None:
        self._use = use

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/v1/offers/use"
        if self._use is None:
            raise NotFound("no such route")
        return self._use


def offers(*batch_milli: int) -> list[dict[str, Any]]:
    return [{"batch": {"cpu_milli": milli}, "mid": {"cpu_milli": 0}} for milli in batch_milli]


@pytest.mark.parametrize(
    ("listed", "use", "line"),
    [
        (offers(0, 0), {"why": WHY, "no_offer": {"no_slack": 2}}, WHY),
        (offers(0), {"why": WHY, "no_offer": {"no_slack": 2}}, ""),  # a filtered list
        (offers(0, 5), {"why": WHY, "no_offer": {"no_slack": 2}}, ""),
        (offers(0, 0), None, ""),
        (offers(), {"why": WHY, "no_offer": {}}, ""),
    ],
)
def test_a_list_in_which_nothing_is_offered_says_why(
    listed: list[dict[str, Any]], use: dict[str, Any] | None, line: str
) -> None:
    assert why_none(listed, cast("Reader", Server(use))) == line


def part(before: int | None, after: int | None, *, carried_out: bool = True) -> dict[str, Any]:
    limits = {"limit_before_milli": before, "limit_after_milli": after}
    return {"chosen": True, "carried_out": carried_out, **limits}


def test_a_limit_that_no_record_names_yet_is_explained() -> None:
    text = later_steps({"cpu_limit_milli": 250}, part(1000, 500))
    assert text.startswith(
        "its CPU limit is 0.25 cores now, not 0.5 cores: newer steps of the episode are listed by a later record"
    )
    assert later_steps({"cpu_limit_milli": None}, part(1000, 500)).startswith(
        "its CPU limit is none now, not 0.5 cores"
    )


@pytest.mark.parametrize(
    ("running", "newest"),
    [
        ({"cpu_limit_milli": 500}, part(1000, 500)),
        (None, part(1000, 500)),
        ({"cpu_limit_milli": 800}, part(None, None)),  # memory alone was limited
        ({"cpu_limit_milli": 800}, part(1000, 500, carried_out=False)),
    ],
)
def test_no_later_steps_are_claimed_otherwise(running: dict[str, Any] | None, newest: dict[str, Any]) -> None:
    assert later_steps(running, newest) == ""
