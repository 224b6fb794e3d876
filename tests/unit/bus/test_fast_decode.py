"""The quick reader and pydantic never disagree: what it takes is what pydantic gives, the rest it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support import windows
from tests.support.reports import host_app, pod_usage, report

from slackwater.bus.codec.cloudevents import decode, encode
from slackwater.events.codec import fast_decode
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Event, Payload, built, event_of
from slackwater.events.peak_predicted import Calibration, PeakPredicted, PodPeak
from slackwater.events.pod_columns import by_columns
from slackwater.events.pods_rostered import PodsRostered, RosterChanges
from slackwater.events.report_columns import InvalidColumns
from slackwater.events.rosters import RosterMissing, no_roster, roster_of
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.devices import DiskUse, LinkUse
from slackwater.model.placement_rules import LabelOperator, LabelRequirement, PlacementRules, PodToleration, SpreadRule
from slackwater.model.pods import PodStatus
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier

RULES = PlacementRules(
    affinity=((LabelRequirement("zone", LabelOperator.NOT_IN, ("a",)),),),
    tolerations=(PodToleration("k"),),
    spread=(SpreadRule("zone", 2, {"app": "b"}),),
    local_storage=True,
)
NOW = datetime(2026, 1, 5, 12, 30, 15, 123456, tzinfo=UTC)
PAYLOADS: tuple[Payload, ...] = (
    report("n", 7, NOW, pods=[pod_usage("a"), pod_usage("b")], host_apps=[host_app("nginx")]).model_copy(
        update={"disks": (DiskUse("vda", 0.25),), "links": (LinkUse("eth0", 1, 2, None), LinkUse("eth1", 3, 4, 5))}
    ),
    windows.window("n", 3, {"a": 500}, host_apps={("nginx", Tier.PROD): 200}).data,
    PeakPredicted(
        node="n", predicted_at=NOW, window_number=3, window_seconds=60, model="histogram", samples=9,
        cold_start_share=0.25, node_peak=Resources(1, 2), system_peak=Resources(1, 2),
        tier_peaks={"prod": Resources(3, 4)}, prod_peak=Resources(3, 4), prod_reclaimable=Resources(),
        pods=(PodPeak(uid="a", workload="w", tier="prod", peak=Resources(1, 2), cold_start=True),), decision_id="d",
        version="1", confidence=0.75, sample_age_seconds=2.5, cause="diff",
        calibrations={"cpu": Calibration("workload-profile", "1", 0.01, None, 3.5, 0.3, "default", 2)},
    ),
    report("n", 8, NOW, pods=[pod_usage("a", status=PodStatus(ready=False, restarts=3), rules=RULES)]).model_copy(
        update={"failed_pods": (pod_usage("c", status=PodStatus(phase="Failed", reason="Evicted")).pod,)}
    ),
    PodsRostered(
        node="n", boot_epoch="b", sequence=9, rostered_at=NOW, slot=1, changes=RosterChanges(added=("a",)),
        roster=roster_of([pod_usage("a", rules=RULES, labels={"team": "x"}).pod], [pod_usage("c").pod]),
    ),
)  # fmt: skip
REPORTS = tuple(payload for payload in PAYLOADS if isinstance(payload, UsageReported))
LITERALS = (
    "null", "true", "0", "-0", "1.0", "1e3", "-0.0", "1E400", "01", "NaN", "-Infinity", '"5"', '"x"', '""', "[]", "{}",
    "9223372036854775808", *map(str, (2**50, 2**50 + 1, 2**56, 2**56 + 1, 10**7, 10**7 + 1, -1, 1.5, 1.51)),
    '"1969-12-31T23:59:59Z"', '"1970-01-01T00:00:00Z"', '"2199-12-31T23:59:59Z"', '"2200-01-01T00:00:00Z"',
    f'"{"x" * 512}"', f'"{"x" * 513}"', '{"cpu_milli": -1, "memory_bytes": 0}',
    "12345678901234567890123", '"\\ud800"', '"2026-01-05T00:00:00Z"', '"2026-01-05T00:00:00"',
    '"2026-01-05T00:00:00.1234567Z"', '"2026-01-05T00:00:00.9999999+01:00"', '"2026-01-05"', "1767571200",
    '"2026-01-05T00:00:00.123456\\u0037Z"', '"9999-12-31T23:59:59.9999999Z"', '"prod"', '"interval"', '{"avg": 1}',
)  # fmt: skip


def paths(document: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    return [place for key, value in items for place in ((*here, key), *paths(value, (*here, key)))]


def bent(payload: Payload, place: int, literal: str | None) -> bytes:
    """Its JSON with the literal at one place, or with nothing there."""
    document = json.loads(payload.body())
    found = paths(document)
    *way, last = found[place % len(found)]
    holder = document
    for key in way:
        holder = holder[key]
    if literal is None:
        del holder[last]
    else:
        holder[last] = "@"
    return json.dumps(document).replace('"@"', literal or "").encode()


def by_the_book(payload: type[Payload], body: bytes) -> Payload | None:
    """As pydantic alone reads it."""
    try:
        return payload.from_document(json.loads(body), no_roster)
    except (ValidationError, InvalidColumns, RosterMissing, ValueError):
        return None


def quickly(payload: type[Payload], body: bytes) -> Payload | None:
    """As the quick reader alone reads it; None if it leaves the body to pydantic."""
    if payload.WIRE is None:
        return fast_decode.read(payload, body)
    columns = fast_decode.read_columns(payload, body)
    try:
        return None if columns is None else payload.joined(columns, no_roster)
    except (InvalidColumns, RosterMissing):
        return None


@pytest.mark.parametrize("payload", REPORTS, ids=["plain", "failed"])
def test_columns_are_the_pods_that_were_sent(payload: UsageReported) -> None:
    found = quickly(UsageReported, payload.body().encode())
    assert found is not None
    assert isinstance(found, UsageReported)
    assert (len(found.pods), tuple(found.pods)) == (len(payload.pods), payload.pods)
    assert (found.pods[-1], found.pods[:1]) == (payload.pods[-1], payload.pods[:1])
    assert found == payload
    columns, expected = by_columns(found.pods), by_columns(payload.pods)
    assert columns.described == tuple(expected.described)
    assert columns.cpu.tolist() == expected.cpu.tolist()
    assert columns.memory.tolist() == expected.memory.tolist()
    for name in (
        *("cpu_limit_milli", "throttled_ratio", "cpu_some_avg"),
        *("memory_high_bytes", "original_memory_high_bytes", "reclaimable_bytes"),
    ):
        assert list(getattr(columns, name)) == getattr(expected, name)


@given(st.sampled_from(PAYLOADS), st.integers(0, 500), st.none() | st.sampled_from(LITERALS))
@example(PAYLOADS[0], 3, '"2026-01-05T00:00:00.1234567Z"')
def test_what_the_quick_reader_takes_is_what_pydantic_gives(payload: Payload, place: int, literal: str | None) -> None:
    body = bent(payload, place, literal)
    found = quickly(type(payload), body)
    if found is None:
        return
    expected = by_the_book(type(payload), body)
    assert expected is not None
    assert found == expected
    assert found.body() == expected.body()


@given(
    st.sampled_from(PAYLOADS),
    st.datetimes(timezones=st.sampled_from([UTC])),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
)
def test_values_of_every_kind_arrive_as_pydantic_reads_them(
    payload: Payload, moment: datetime, number: int, share: float, text: str
) -> None:
    changes = {datetime: moment, int: number, float: share, str: text}
    values = {name: changes.get(type(value), value) for name, value in payload if name != "trigger"}
    body = type(payload).model_construct(**values).body().encode()
    found = quickly(type(payload), body)
    if found is not None:
        assert found == by_the_book(type(payload), body)


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_what_we_write_is_read_quickly(payload: Payload) -> None:
    assert quickly(type(payload), payload.body().encode()) == payload


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"node": 1}', b"\xff"])
def test_what_is_no_report_is_left_to_pydantic_which_says_why(body: bytes) -> None:
    assert fast_decode.read_columns(UsageReported, body) is None
    message = encode(event_of(PAYLOADS[0], source="agent", time=NOW))
    with pytest.raises(Undecodable):
        decode(UsageReported, message.headers, body)
    assert by_the_book(UsageReported, body) is None


def test_a_spelling_that_only_pydantic_knows_is_still_understood() -> None:
    text = PAYLOADS[0].body().replace('"sequence":7', '"sequence":"7"')
    assert fast_decode.read_columns(UsageReported, text.encode()) is None
    message = encode(event_of(PAYLOADS[0], source="agent", time=NOW))
    assert decode(UsageReported, message.headers, text.encode()).data == PAYLOADS[0]


def test_other_events_are_none_of_its_business() -> None:
    class Unlisted(UsageWindowed):
        """Not in the list of those that come by the thousand."""

    window = windows.window("n", 3, {}).data
    assert fast_decode.read(Unlisted, window.model_dump_json().encode()) is None


def test_a_prediction_from_before_models_could_be_chosen_is_read_quickly() -> None:
    document = json.loads(PAYLOADS[2].model_dump_json())
    for later in ("version", "confidence", "sample_age_seconds", "cause", "calibrations"):
        del document[later]
    found = fast_decode.read(PeakPredicted, json.dumps(document).encode())
    assert found == PeakPredicted.model_validate(document)
    assert found is not None
    assert found.calibrations == {}
    assert found.version == ""


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
def test_what_is_built_of_all_its_fields_is_what_pydantic_would_have_made(payload: Payload) -> None:
    by_the_book = type(payload).model_construct(**dict(payload))
    ours = built(type(payload), dict(payload))
    assert ours == by_the_book == payload
    assert ours.model_dump_json() == by_the_book.model_dump_json()
    assert ours.model_fields_set == by_the_book.model_fields_set
    assert ours.model_copy(deep=True) == payload
    with pytest.raises(ValidationError, match="frozen"):
        setattr(ours, next(iter(type(ours).model_fields)), "other")
    event = event_of(payload, source="s", time=NOW)
    assert built(Event, dict(event)) == event
