"""Why an amount is offered, in any history of a node: the sum shown is what was published, each term has a source."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from drawn import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from served import record_all
from test_histories_of_offers import Node, Step, predictions, steps, windows
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.windows import described, window

from slackwater.colocation.ports import FollowedStrategy
from slackwater.colocation.usecases.node_updates import apply_description, apply_usage
from slackwater.colocation.usecases.recompute_offer import recompute
from slackwater.console.domain.views import OfferView, Why
from slackwater.console.usecases.explain import why
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.envelope import Event, event_of
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.errors import NotFound
from slackwater.model.quantities import Resources
from slackwater.offers.node import NodeState
from slackwater.offers.strategy import MidMode, Strategy

SUBJECTS = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
SAID_BY_THE_STRATEGY = "cluster@1"
MONTH = timedelta(days=30)


@dataclass(slots=True)
class ObservedNode(Node):
    """A node whose events all reach the console, each at a time of its own."""

    events: list[Event[Any]] = field(default_factory=list)

    def take(self, learn: Callable[[NodeState, Event[Any]], NodeState] | None, data: Any = None) -> None:
        self.now += timedelta(milliseconds=1)
        event = None if learn is None else event_of(data, source="test", time=self.now)
        known = self.state if learn is None or event is None else learn(self.state, event)
        followed = FollowedStrategy(self.strategy, (SAID_BY_THE_STRATEGY,))
        self.state, events = recompute(known, followed, self.now, event)
        self.events += [*([event] if event else []), *events]


def heard(strategy: Strategy, history: Sequence[Step], capacity: int = 50_000) -> ObservedNode:
    node = ObservedNode(strategy=strategy)
    node.take(apply_description, described("n", capacity, capacity, zones=2).data)
    for step in history:
        step(node)
    return node


async def explained(node: ObservedNode) -> list[tuple[OfferView, Why]]:
    """Every amount of every offer, as it is explained at the time of its event."""
    model = MemoryReadModel()
    recorder = RecordEvents(model, FakeClock(node.now), usage_retention=MONTH, decision_retention=MONTH)
    await record_all(recorder, node.events)
    found: list[tuple[OfferView, Why]] = []
    for event in node.events:
        if isinstance(event.data, ResourcesOffered):
            offer = await model.offer_at("n", event.data.offered_at)
            assert offer is not None
            assert offer.event_id == event.id
            for subject in set(SUBJECTS) - offer.decision_ids.keys():
                assert subject.startswith("mid-")
                assert offer.mid == Resources()
                with pytest.raises(NotFound, match=r"nothing was offered to mid"):
                    await why(model, "n", subject, offer.offered_at)
            answers = [await why(model, "n", subject, offer.offered_at) for subject in offer.decision_ids]
            found += [(offer, answer) for answer in answers]
    return found


def check(offer: OfferView, answer: Why) -> None:
    tier, resource = answer.subject.split("-")
    part = offer.mid if tier == "mid" else offer.batch
    assert answer.result == (part.cpu_milli if resource == "cpu" else part.memory_bytes)
    assert answer.record.id == offer.decision_ids[answer.subject]
    assert answer.adds_up
    assert sum(row.value for row in answer.waterfall) == answer.result
    for row in answer.waterfall:
        assert row.source, f"{row.name} of {answer.subject} does not say what it stands on"
        if row.value:
            assert row.source != "nobody", f"{row.name} of {answer.subject} has no source"
            assert row.observed_at is not None or row.source == SAID_BY_THE_STRATEGY, f"{row.name} is of no time"
        assert not re.search(r"\d{5,}", row.note), f"{row.name}: {row.note!r} is not for people"


@settings(max_examples=60, deadline=None)
@given(strategies, st.lists(steps, min_size=1, max_size=10))
def test_every_amount_of_every_offer_is_explained_by_a_sum_with_sources(
    strategy: Strategy, history: Sequence[Step]
) -> None:
    for offer, answer in asyncio.run(explained(heard(replace(strategy, enabled=True), history))):
        check(offer, answer)


@settings(max_examples=20, deadline=None)
@given(st.lists(windows() | predictions(), min_size=4, max_size=8))
def test_all_four_amounts_are_explained_where_mid_has_a_share(history: Sequence[Step]) -> None:
    """Without it, the histories above could be of nodes that never offer anything."""
    strategy = Strategy(
        mid_mode=MidMode.STATIC, mid_static_cpu_reserved_percent=10, mid_static_memory_reserved_percent=10
    )
    node = heard(replace(strategy, decay_from_seconds=1e6, decay_to_seconds=2e6), history, 400_000)
    found = asyncio.run(explained(node))
    for offer, answer in found:
        check(offer, answer)
    if node.state.used_by is not None:
        assert {answer.subject for _, answer in found} == set(SUBJECTS)


def test_a_share_that_mid_has_no_more_is_not_explained_as_if_it_had_it() -> None:
    with_mid = Strategy(mid_mode=MidMode.STATIC, mid_static_cpu_reserved_percent=10)
    node = heard(with_mid, [], 8000)
    event = window("n", 0, {"p": 500})
    node.now = event.data.window_start + timedelta(seconds=60)
    node.take(apply_usage, event.data)
    node.strategy = Strategy()
    node.take(None)
    subjects = [answer.subject for _, answer in asyncio.run(explained(node))]
    assert subjects.count("mid-cpu") == 1
    assert subjects.count("batch-cpu") == 2, "the second offer is explained, but for mid"


def test_what_hysteresis_holds_back_is_a_term_that_names_the_offer_before() -> None:
    """CPU rises a little, which is not published; memory halves, which is: both records of that offer are explained."""
    node = ObservedNode(strategy=Strategy(cold_start_holds_request=False))
    node.take(apply_description, described("n").data)
    measured = [window("n", number, {"p": cpu}) for number, cpu in ((0, 2000), (1, 1900))]
    for event in measured:
        node.now = event.data.window_start + timedelta(seconds=60)
        node.take(apply_usage, event.data)
    node.take(apply_description, described("n", memory_bytes=2**33, number=2).data)

    first, second = (event for event in node.events if isinstance(event.data, ResourcesOffered))
    *_, cpu, memory = [answer for _, answer in asyncio.run(explained(node))]
    assert [row.name for row in memory.waterfall if row.name == "hysteresis"] == []
    (held,) = [row for row in cpu.waterfall if row.name == "hysteresis"]
    assert (held.value, held.source, held.observed_at) == (-100, first.id, first.data.offered_at)
    assert "the rise is too small" in held.note
    (known,) = [each for each in cpu.inputs if each.name == "in_force"]
    assert known.value == first.data.batch.cpu_milli == second.data.batch.cpu_milli
    assert [each.what for each in cpu.record.alternatives][
        -1
    ] == f"the computed value: {(cpu.result + 100) / 1000:g} cores"
