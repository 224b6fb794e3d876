"""Owners of partitions, as the console shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx2
from console_app import console_app
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.console.domain.loop import LeaseView, ProcessView, ServiceView
from slackwater.console.domain.shards import replicas_of, shard_views
from slackwater.console.edge.stream import Streams
from slackwater.model.identifiers import PARTITIONS
from slackwater.runtime.service_list import service_list

NOW = EPOCH + timedelta(hours=1)


async def no_checks() -> Sequence[Any]:
    return ()


def said(age: float, owners: str, service: str = "ingestion") -> ProcessView:
    """A replica that published the owners of partitions 0, 1, … `age` seconds ago; `-` is unowned."""
    leases = tuple(
        LeaseView(number, None if name == "-" else f"{name}/1", 7, EPOCH) for number, name in enumerate(owners)
    )
    service_said = ServiceView(service, "running", 0, "", (), 0, 0.0, 0, f"{owners[0]}/1", 2, leases)
    return ProcessView(f"p{age}", "1", EPOCH, NOW - timedelta(seconds=age), 5.0, (service_said,))


def test_the_newest_word_of_a_living_replica_counts() -> None:
    shards = shard_views([said(4, "aabb"), said(1, "aaaa"), said(60, "cccc")], NOW)
    assert [shard.owner for shard in shards] == ["a/1"] * 4
    assert shards[0].told_at == NOW - timedelta(seconds=1)
    assert [(shard.first_shard, shard.last_shard) for shard in shards[:2]] == [(0, 7), (8, 15)]


def test_of_a_service_whose_replicas_are_silent_nothing_is_known() -> None:
    assert shard_views([said(60, "aabb")], NOW) == []


def test_replicas_have_their_shares_and_unowned_partitions_come_first() -> None:
    replicas = replicas_of(shard_views([said(1, "ab-b"), said(2, "cc", "prediction")], NOW))
    assert [(one.service, one.name, one.partitions) for one in replicas] == [
        ("ingestion", "", (2,)),
        ("ingestion", "a", (0,)),
        ("ingestion", "b", (1, 3)),
        ("prediction", "c", (0, 1)),
    ]


async def test_the_api_and_the_page_show_them(told: MemoryReadModel, streams: Streams, clock: FakeClock) -> None:
    app = console_app(told, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        items = (await client.get("/v1/shards")).json()["items"]
        assert {item["service"] for item in items} == {*service_list().partitioned}
        assert len(items) == len(service_list().partitioned) * PARTITIONS
        of_one = (await client.get("/v1/shards?service=ingestion")).json()["items"]
        assert [item["partition"] for item in of_one] == [*range(PARTITIONS)]
        assert "0 1 2 3 4 5 6 7" in (await client.get("/loop")).text
