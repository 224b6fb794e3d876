"""Kubernetes Events: equal ones are one series, their rate and number are bounded, and each work reports its own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.clock import EPOCH
from tests.unit.kubernetes.test_evictions_of_the_service import EvictingCluster

from slackwater.apiserver.cluster_events import ClusterEvent, EventSubject, node_subject
from slackwater.events.envelope import event_of
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.kubernetes.domain.event_book import MOST_SERIES, EventBook, EventPace


def event(name: str = "n1", note: str = "why") -> ClusterEvent:
    return ClusterEvent(node_subject(name, "u"), "Cordoned", "Cordon", note)


def write(book: EventBook, seconds: float) -> list[tuple[str, int]]:
    """What is written then, with the counts."""
    now = EPOCH + timedelta(seconds=seconds)
    due = book.due(now)
    for booked in due:
        book.settled(booked, now)
    return [(booked.series.event.subject.name, booked.series.count) for booked in due]


def test_equal_events_are_one_series_whose_count_is_written_seldom() -> None:
    book = EventBook()
    book.note(event(), EPOCH)
    assert write(book, 0) == [("n1", 1)]
    for second in range(1, 20):
        book.note(event(), EPOCH + timedelta(seconds=second))
        assert write(book, second) == []
    assert write(book, 31) == [("n1", 20)]
    assert write(book, 100) == []
    book.note(event(note="another"), EPOCH)
    assert write(book, 101) == [("n1", 1)], "another note is another event"


def test_a_series_ends_with_a_gap() -> None:
    book = EventBook()
    book.note(event(), EPOCH)
    assert write(book, 0) == [("n1", 1)]
    book.note(event(), EPOCH + timedelta(minutes=7))
    assert write(book, 7 * 60) == [("n1", 1)], "a new one"


def test_rate_and_number_are_bounded() -> None:
    book = EventBook(EventPace(burst=3, seconds=1.0))
    for number in range(MOST_SERIES + 5):
        book.note(event(f"n{number}"), EPOCH)
    assert book.dropped == 5
    assert len(write(book, 0)) == 3
    assert write(book, 0.5) == []
    assert len(write(book, 2)) == 2
    assert len(write(book, 500)) == 3, "no more than a burst"


def test_the_object_is_one_of_the_api() -> None:
    book = EventBook()
    subject = EventSubject("v1", "Pod", "jobs", "p" * 250, "uid-1")
    book.note(ClusterEvent(subject, "EvictionRefused", "Evict", "x" * 5000, is_warning=True), EPOCH)
    (booked,) = book.due(EPOCH)
    document = booked.series.document("replica")
    assert document["metadata"]["namespace"] == document["regarding"]["namespace"] == "jobs"
    assert len(document["metadata"]["name"]) <= 253
    assert (len(document["note"]), document["type"]) == (1024, "Warning")
    assert "series" not in document
    assert document["eventTime"].endswith(".000000Z")


def reasons(cluster: EvictingCluster) -> list[tuple[str, str, bool]]:
    made = [series.event for series in cluster.server.events.values()]
    return [(one.subject.name, one.reason, one.is_warning) for one in made]


async def test_evictions_are_reported_at_their_pods_with_the_reason_of_a_refusal() -> None:
    cluster = EvictingCluster()
    free, guarded = cluster.pod("free"), cluster.pod("guarded")
    cluster.budget("guarded", 0)
    async with cluster.running():
        await cluster.describe("n0")
        await cluster.want("n0", free, guarded, waits=False)
        await cluster.scene.advance(2)
    assert sorted(reasons(cluster)) == [("free", "EvictionAccepted", False), ("guarded", "EvictionRefused", True)]
    notes = {series.event.subject.name: series.event.note for series in cluster.server.events.values()}
    assert notes["free"] == "evicted for ensurance from node n0: slackwater why pod/jobs/free"
    assert "disruption budget" in notes["guarded"]


async def test_cordons_are_reported_once_and_not_when_they_are_renewed() -> None:
    cluster = EvictingCluster()
    async with cluster.running():
        for closed in (True, True, False):
            now = cluster.scene.clock.now()
            until = now + timedelta(seconds=120) if closed else None
            told = NodeSchedulingChanged(
                node="n0",
                closed=closed,
                reason="r",
                rules=(),
                decision_id="d",
                since=now,
                told_at=now,
                valid_until=until,
            )
            await cluster.scene.bus.publish(event_of(told, source="ensurance", time=now))
            await cluster.scene.advance(3)
    assert reasons(cluster) == [("n0", "Cordoned", False), ("n0", "Uncordoned", False)]


@pytest.mark.parametrize("enabled", [True, False])
async def test_refused_writes_to_nodes_are_reported_and_nothing_where_events_are_off(enabled: bool) -> None:
    cluster = EvictingCluster(events=enabled)
    async with cluster.running() as service:
        service.cordons.refusals["n1"] = "no right"
        await cluster.scene.advance(3)
        await cluster.scene.advance(3)
    assert reasons(cluster) == ([("n1", "CordonRefused", True)] if enabled else [])
