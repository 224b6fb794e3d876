"""What figures are made of: which reports cross, which intent answers which report, which surges were answered."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bench import intents, reaction
from tests.bench.load import fleet
from tests.bench.policies.comparison import SurgeFigures

from slackwater.bus.codec.cloudevents import decode
from slackwater.events.envelope import subject_of
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.rosters import Roster, RosterMissing
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed

IDENTITY = "0000aaaa-0000-7000-8000-{:012x}"


@given(st.integers(1, 5000), st.sampled_from([10, 50, 100, 250]))
def test_as_many_reports_cross_in_each_round_as_were_asked_for(sequence: int, every: int) -> None:
    crossing = [node for node in range(2000) if fleet.crosses(node, sequence, every)]
    assert len(crossing) == 2000 // every
    assert {later - earlier for earlier, later in pairwise(crossing)} == {every}


@given(st.integers(0, 1999), st.integers(1, 5000))
def test_a_node_crosses_once_in_so_many_reports(node: int, first: int) -> None:
    assert sum(fleet.crosses(node, sequence, 100) for sequence in range(first, first + 100)) == 1
    assert not fleet.crosses(node, first, 0)


def test_a_crossing_is_the_same_report_on_both_ways() -> None:
    ways = fleet.crossing(3, 0.8, 1.0)
    filled = [way.filled(7, 5, fleet.described(7, fleet._SAMPLED).described_at, b"1" * 36) for way in ways]
    assert filled[0][1] == filled[1][1]
    rostered = decode(PodsRostered, *_message(fleet.roster(3))).data

    def find(node: str, digest: str) -> Roster | None:
        return rostered.roster if (node, digest) == (rostered.node, rostered.roster.digest) else None

    report = decode(UsageReported, headers_of(filled[0][0]), filled[0][1], find=find)
    crossed = decode(WaterlineCrossed, headers_of(filled[1][0]), filled[1][1], find=find)
    assert report.id == crossed.id
    assert dict(report.data) == dict(crossed.data)
    assert (report.data.trigger, report.data.node, report.data.sequence) == ("waterline", "node-00007", 5)
    assert fleet.subjects(8, urgent=True)[7].startswith(b"sw.v1.waterline.crossed.")


def test_reports_travel_as_those_of_agents_and_count_by_a_roster_with_as_many_pods() -> None:
    head, body = fleet.message(30, 0.5, 1.0).filled(7, 5, fleet._SAMPLED, b"1" * 36)
    assert b"web-00" not in body, "identities travel in the roster"
    with pytest.raises(RosterMissing):
        decode(UsageReported, headers_of(head), body)
    rostered = decode(PodsRostered, *_message(fleet.roster(30))).data
    assert rostered.roster.uids[29] == "6f2d0029-91c3-4b7e-8a55-000000000007"
    assert fleet.roster_subjects(8)[7] == subject_of(rostered).encode()


def _message(template: fleet.Message) -> tuple[dict[str, str], bytes]:
    head, body = template.filled(7, 5, fleet._SAMPLED, b"2" * 36)
    return headers_of(head), body


def headers_of(head: bytes) -> dict[str, str]:
    lines = head.decode().strip().splitlines()[1:]
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


def ledger(crossed: dict[str, float | None]) -> dict[str, Any]:
    return {"crossed": crossed, "stored_at": dict(crossed), "sent_at": [100.0 + n for n in range(10)]}


def test_an_intent_is_found_by_way_of_its_decision_and_later_ones_do_not_count() -> None:
    heard = intents.ReceivedIntents()
    heard.reports |= {"d3": IDENTITY.format(3), "later": IDENTITY.format(3), "other": "a-policy"}
    heard.intents += [
        intents.Intent("d3", 103.01, 103.02),
        intents.Intent("later", 109.0, 109.0),
        intents.Intent("other", 1.0, 1.0),
        intents.Intent("unknown", 1.0, 1.0),
    ]
    found = intents.judged(heard, ledger({"3": 103.005, "5": 105.001, "9": None}), since=102.0, until=108.0)
    assert (found["crossed"], found["unanswered"]) == (2, 1), "the third was sent outside of the span"
    assert found["report_to_intent_milliseconds"]["p99"] == pytest.approx(20.0)
    assert found["steps_milliseconds"]["stored to intent"]["p50"] == pytest.approx(15.0)
    assert found["steps_milliseconds"]["decision to intent"]["p50"] == pytest.approx(10.0)


def answered(quota: float | None, below: float | None, *, crossed: bool = True) -> reaction.SurgeReaction:
    figures = SurgeFigures(
        policy="precise", needed=1, lost=1, seconds_above=1, crossed=crossed, seconds_to_below=below, pods=3, actions=3
    )
    return reaction.SurgeReaction(quota, figures)


CASES = (
    ([answered(1.0, 1.1), answered(1.5, 1.9)], 0, True),
    ([answered(1.0, 1.1), answered(1.5, 2.1)], 0, False),
    ([answered(1.0, 1.1), answered(None, 1.2)], 1, False),
    ([answered(1.0, 1.1), answered(1.0, None)], 1, False),
    ([answered(0.2, None, crossed=False)], 0, False),
)


@pytest.mark.parametrize(("found", "unanswered", "passed"), CASES)
def test_a_surge_without_a_reaction_is_reported_and_misses_the_target(
    found: list[reaction.SurgeReaction], unanswered: int, passed: bool
) -> None:
    figure = reaction.judged(found)
    assert figure["unanswered"] == unanswered
    assert all(target.is_met(1.0) for target in figure["targets"]) is passed
    assert figure["surges"] == len(found)
