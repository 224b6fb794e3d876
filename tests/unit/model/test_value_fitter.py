"""What does not fit the bounds of its type is changed and named, and nothing else is."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from tests.support.clock import EPOCH
from tests.support.reports import described, pod

from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.model.bounds import LATEST, MOST_CPU_MILLI, MOST_LABELS, MOST_NAME, Text, is_line
from slackwater.model.devices import DiskUse
from slackwater.model.nodes import NodeFacts
from slackwater.model.placement_rules import PlacementRules, SpreadRule
from slackwater.model.pods import Pod, PodStatus
from slackwater.model.quantities import Resources
from slackwater.model.value_fitter import fitter, label_of

POD: TypeAdapter[Pod] = TypeAdapter(Pod)
TEXTS = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["x" * 600, "a\nb", "a\0b", "\ud800", "\u00a0", "é" * 512, ""]
)
NUMBERS = st.integers(-(2**70), 2**70)


def fitted(kind: Any, value: Any) -> tuple[Any, list[str]]:
    fit, notes = fitter(kind), list[str]()
    assert fit is not None
    return fit(value, notes), notes


def accepted(value: Any) -> Any:
    """As a reader has it; raises ValidationError."""
    return POD.validate_json(POD.dump_json(value))


def test_a_value_within_its_bounds_stays_the_same_object() -> None:
    plain = pod("a", labels={"app": "b"}, status=PodStatus(ready=False), rules=PlacementRules({"zone": "a"}))
    assert fitted(Pod, plain) == (plain, [])
    assert fitted(Pod, plain)[0] is plain
    facts = described("n", EPOCH).facts
    assert fitted(NodeFacts, facts)[0] is facts


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"request": Resources(16_000_000, 1)}, "request.cpu_milli"),
        ({"request": Resources(0, 2**62)}, "request.memory_bytes"),
        ({"request": Resources(-1, 10**30)}, "request.cpu_milli"),
        ({"priority": -(2**31)}, "priority"),
        ({"workload": "x" * 600}, "workload"),
        ({"status": PodStatus(reason="two\nlines")}, "status.reason"),
        ({"status": PodStatus(restarts=2**60)}, "status.restarts"),
        ({"labels": {"k" * 600: "v"}}, "labels"),
        ({"labels": {"note": "two\nlines"}}, "labels"),
        ({"labels": {"note": "a\0b"}}, "labels"),
        ({"labels": {str(number): "" for number in range(MOST_LABELS + 1)}}, "labels"),
        ({"started_at": datetime(1, 1, 1, tzinfo=UTC)}, "started_at"),
        ({"started_at": datetime(2026, 1, 1)}, "started_at"),  # noqa: DTZ001 - without an offset
        ({"started_at": LATEST}, "started_at"),
        ({"rules": PlacementRules(spread=(SpreadRule("zone", 2_000_000),))}, "rules.spread"),
        ({"rules": PlacementRules(node_selector={"k": "v" * 600})}, "rules.node_selector"),
    ],
)
def test_what_does_not_fit_is_named_and_the_rest_is_as_it_was(change: dict[str, Any], field: str) -> None:
    hostile = dataclasses.replace(pod("a", labels={"app": "b"}), **change)
    found, notes = fitted(Pod, hostile)
    assert notes
    assert notes[0].startswith(f".{field}"), notes
    assert all(note.isprintable() for note in notes)
    assert accepted(found) == found
    for name in {each.name for each in dataclasses.fields(Pod)} - change.keys():
        assert getattr(found, name) == getattr(hostile, name)


def test_numbers_are_capped_and_rules_are_kept_whole_or_not_at_all() -> None:
    found, notes = fitted(Pod, pod("a", request=Resources(16_000_000, 5)))
    assert found.request == Resources(MOST_CPU_MILLI, 5)
    assert notes == [".request.cpu_milli: 16000000 is capped at 10000000"]
    rules = PlacementRules({"zone": "a"}, spread=(SpreadRule("zone", 10**7),), local_storage=True)
    found, _ = fitted(Pod, pod("a", rules=rules))
    assert found.rules == PlacementRules(unread=("too-large",), local_storage=True)
    disk, notes = fitted(DiskUse, DiskUse("vda", float("nan")))
    assert (disk, notes) == (DiskUse("vda", 0), [".usage_ratio: nan is capped at 0"])


def test_names_that_are_shortened_stay_distinct() -> None:
    found = {fitted(Pod, pod("a", workload="x" * 600 + end))[0].workload for end in ("a", "b")}
    assert len(found) == 2
    assert all(is_line(name) and len(name) == MOST_NAME for name in found)


def test_an_item_is_named_by_its_pod() -> None:
    limits = (ObservedLimit.model_construct(pod_uid="a", cpu_limit_milli=16_000_000),)
    found, notes = fitted(IntentObserved, IntentObserved.model_construct(limits=limits, **_INTENT))
    assert found.limits[0].cpu_limit_milli == MOST_CPU_MILLI
    assert notes == [".limits[pod a].cpu_limit_milli: 16000000 is capped at 10000000"]
    assert label_of(pod("a", namespace="shop")) == "pod shop/a"


_INTENT: dict[str, Any] = {
    "node": "n", "writer": "w", "generation": 1, "boot_epoch": "b", "received_at": LATEST.replace(year=2026),
    "observed_at": LATEST.replace(year=2026), "memory_limits": (), "starts": (), "foreign_writers": (),
}  # fmt: skip


@pytest.mark.parametrize("text", ["x" * 300_000, "a\0b", "\ud800", "two\nlines and é"])
def test_long_texts_are_cut_and_keep_their_lines(text: str) -> None:
    found, notes = fitted(Text, text)
    assert bool(notes) == (found != text)
    assert len(found) <= 262_144
    found.encode()
    assert "\0" not in found


@given(
    st.builds(Resources, NUMBERS, NUMBERS),
    NUMBERS,
    st.dictionaries(TEXTS, TEXTS, max_size=4),
    st.lists(TEXTS, min_size=4, max_size=4),
    st.datetimes() | st.datetimes(timezones=st.just(UTC)),
    st.none() | st.builds(PodStatus, st.booleans(), NUMBERS, TEXTS, TEXTS, st.booleans()),
    st.none()
    | st.builds(
        PlacementRules,
        node_selector=st.dictionaries(TEXTS, TEXTS, max_size=70),
        spread=st.lists(st.builds(SpreadRule, TEXTS, NUMBERS), max_size=70).map(tuple),
        unread=st.lists(TEXTS, max_size=70).map(tuple),
    ),
)
def test_whatever_a_pod_says_is_accepted_once_fitted(
    request: Resources,
    priority: int,
    labels: dict[str, str],
    names: list[str],
    started_at: datetime,
    status: PodStatus | None,
    rules: PlacementRules | None,
) -> None:
    uid, name, namespace, workload = names
    hostile = dataclasses.replace(
        pod("a"), uid=uid, name=name, namespace=namespace, workload=workload, request=request, priority=priority,
        labels=labels, started_at=started_at, status=status, rules=rules,
    )  # fmt: skip
    found, notes = fitted(Pod, hostile)
    assert accepted(found) == found
    assert fitted(Pod, found) == (found, []), "what fits stays"
    assert all(is_line(note[:MOST_NAME]) for note in notes)
    try:
        is_accepted = accepted(hostile) == hostile
    except (ValidationError, ValueError):
        is_accepted = False
    assert is_accepted or notes, "whatever a reader refuses is named"
