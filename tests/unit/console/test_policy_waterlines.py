"""The waterline of the fleet's pages is of the rules in force, not of an effect that was measured under others."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from console_app import console_app
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.console.domain.fleet import DEFAULT_WATERLINE
from slackwater.console.domain.policies import fleet_waterline, own_waterlines
from slackwater.console.domain.resources import ResourceView
from slackwater.console.edge.stream import Streams


def rule(value: object, metric: str = "prod_cpu_pressure", **more: object) -> dict[str, object]:
    return {"name": "r", "metricRule": {"name": metric, "value": value}, "actionName": "throttle", **more}


def document(name: str, *rules: dict[str, object], generation: int = 1, **spec: object) -> ResourceView:
    body: dict[str, Any] = {"spec": {"rules": list(rules), **spec}}
    return ResourceView("ensurance", "NodeQOS", name, generation, "mara", EPOCH, False, body)


OF_GOLD = {"selector": {"matchLabels": {"slackwater.io/node-pool": "gold"}}}


@pytest.mark.parametrize(
    ("documents", "waterline"),
    [
        ([], DEFAULT_WATERLINE),
        ([document("default", rule(0.3))], 0.3),
        ([document("default", rule("30%"), rule("0.25"))], 0.25),
        ([document("default", rule(0.3)), document("all", rule("200m"))], 0.2),
        ([document("default", rule(0.3)), document("gold", rule(0.05), **OF_GOLD)], 0.3),
        ([document("default", rule(0.3, "node_cpu_usage_ratio"))], None),
        ([document("default")], None),
        ([document("default", rule("much"))], None),
        ([document("default", {"metricRule": 3})], None),
    ],
)
def test_it_is_the_lowest_of_the_rules_for_all_nodes(documents: list[ResourceView], waterline: float | None) -> None:
    assert fleet_waterline(documents) == waterline


def test_those_of_selected_nodes_are_listed_by_their_documents() -> None:
    documents = [
        document("default", rule(0.3)),
        document("gold", rule(0.05), rule("20%"), **OF_GOLD),
        document("memory", rule(0.9, "memory_usage_ratio"), **OF_GOLD),
        document("edge", rule("200m"), **OF_GOLD),
    ]
    assert own_waterlines(documents) == [("edge", 0.2), ("gold", 0.05)]


async def test_pages_follow_the_rules_and_not_the_newest_effect(
    told_anew: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    """The effects of the story name 10 %."""
    app = console_app(told_anew, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        for generation, (value, is_above, words) in enumerate(
            [
                ("0.1%", True, "above the waterline, 0 %"),
                ("99%", False, "0 nodes above the waterline, 99 %"),
                (None, False, "0 nodes above a waterline: no rule for all nodes has one"),
            ],
            start=90,
        ):
            rules = [] if value is None else [rule(value)]
            await told_anew.save_resources([document("default", *rules, generation=generation)])
            await clock.advance(2.0)
            assert ("edge-7</a>" in (await client.get("/nodes?show=above")).text) is is_above
            assert words in " ".join((await client.get("/")).text.split())
            assert (await client.get("/pools")).status_code == (await client.get("/loop")).status_code == 200
        await told_anew.save_resources([document("gold", rule(0.05), generation=95, **OF_GOLD)])
        await clock.advance(2.0)
        for path in ("/", "/nodes"):
            text = (await client.get(path)).text
            assert "5 % on those of" in text
            assert "nodeqos/gold" in text
