"""The waterfall and the chain, whatever a record holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.console.domain.chain import chain_of
from slackwater.console.domain.views import EffectView
from slackwater.console.domain.waterfall import adds_up, waterfall_of
from slackwater.console.usecases.explain import did_you_mean
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action, DecisionRecord, Input, Replay, Term

AT = datetime(2026, 1, 5, 10, tzinfo=UTC)


def record_of(values: list[int], **changes: object) -> DecisionRecord:
    base: dict[str, object] = {
        "id": "d1",
        "kind": DecisionKind.OFFER,
        "node": "edge-7",
        "subject": "batch-cpu",
        "service": "colocation",
        "rule": "usage",
        "reason": Reason.OFFER_CHANGED,
        "decided_at": AT,
        "trigger_event_id": None,
        "inputs": (Input(name="t0", value=1, unit="milli", source="policy", observed_at=AT),),
        "terms": tuple(Term(name=f"t{index}", value=value) for index, value in enumerate(values)),
        "result": sum(values),
        "unit": "milli",
        "replay": Replay(function="builtins:sum", arguments={}),
    }
    return DecisionRecord.model_validate(base | changes)


@given(st.lists(st.integers(-(10**15), 10**15), max_size=20))
def test_a_waterfall_adds_up_for_any_terms(values: list[int]) -> None:
    record = record_of(values)
    rows = waterfall_of(record)
    assert adds_up(rows, record.result)
    assert [row.value for row in rows] == values


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=8), st.data())
def test_a_wrong_row_or_result_is_noticed(values: list[int], data: st.DataObject) -> None:
    rows = list(waterfall_of(record_of(values)))
    assert not adds_up(rows, sum(values) + 1)
    index = data.draw(st.integers(0, len(rows) - 1))
    rows[index] = replace(rows[index], value=rows[index].value + 1)
    assert not adds_up(rows, sum(values))


def test_a_term_gets_source_and_time_from_the_input_of_its_name() -> None:
    first, second = waterfall_of(record_of([5, 6]))
    assert (first.source, first.observed_at) == ("policy", AT)
    assert (second.source, second.observed_at) == (None, None)


def throttle(mode: Mode) -> DecisionRecord:
    action = Action(
        pod_uid="u",
        pod_name="p",
        tier="batch",
        cpu_limit_before_milli=None,
        cpu_limit_after_milli=500,
        released_milli=7,
    )
    return record_of(
        [7],
        kind=DecisionKind.THROTTLE,
        mode=mode,
        reason=Reason.THROTTLE_WATERLINE_CROSSED,
        actions=(action,),
        trigger_event_id="gone",
    )


def test_a_chain_without_its_effect_is_not_complete_and_an_observed_one_awaits_nothing() -> None:
    assert not chain_of(throttle(Mode.THROTTLE), trigger=None, observations=(), effect=None).complete
    assert chain_of(throttle(Mode.OBSERVE), trigger=None, observations=(), effect=None).complete


def test_a_cause_that_is_not_kept_is_a_step_without_a_time() -> None:
    chain = chain_of(throttle(Mode.THROTTLE), trigger=None, observations=(), effect=None)
    assert [(step.kind, step.seconds) for step in chain.steps] == [("trigger", None), ("decision.recorded", 0.0)]


@given(st.floats(0, 60))
def test_seconds_of_a_chain_never_fall(later: float) -> None:
    effect = EffectView("d1", "edge-7", "m", 1.0, 0.0, 0.5, True, AT, AT + timedelta(seconds=later), 0.0, later)
    chain = chain_of(throttle(Mode.THROTTLE), trigger=None, observations=(), effect=effect)
    known = [step.seconds for step in chain.steps if step.seconds is not None]
    assert known == sorted(known)
    assert known[-1] == pytest.approx(later, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [("edge-77", ["edge-7", "rack-1"], "did you mean 'edge-7'?"), ("zzz", ["a", "b"], "known: a, b"), ("x", [], "")],
)
def test_hints_name_the_neighbour_or_the_few_there_are(name: str, known: list[str], expected: str) -> None:
    assert did_you_mean(name, known).endswith(expected)
