"""What a decision came to, in words; the same on pages and in the chain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.charts.units import amount
from slackwater.console.domain.chain import chain_of
from slackwater.console.domain.formatting import outcome, short, shortfall
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import DecisionRecord, Replay, Term


def decision(kind: DecisionKind, result: int, *, mode: Mode = Mode.THROTTLE, remaining: int = 0) -> DecisionRecord:
    return DecisionRecord(
        id="d",
        kind=kind,
        node="n",
        subject="cpu",
        service="ensurance",
        rule="r",
        mode=mode,
        reason=Reason.THROTTLE_WATERLINE_CROSSED,
        decided_at=EPOCH,
        trigger_event_id=None,
        inputs=(),
        terms=(Term(name="t", value=result),),
        result=result,
        unit="milli-cores",
        remaining=remaining,
        remaining_because="all are at their floor" if remaining else "",
        replay=Replay(function="m:f", arguments={}),
    )


@pytest.mark.parametrize(
    ("kind", "result", "mode", "words"),
    [
        (DecisionKind.THROTTLE, 1000, Mode.THROTTLE, "took back 1 core"),
        (DecisionKind.THROTTLE, 120, Mode.THROTTLE, "took back 0.12 cores"),
        (DecisionKind.THROTTLE, 0, Mode.THROTTLE, "found nothing to take back"),
        (DecisionKind.THROTTLE, 500, Mode.OBSERVE, "would take back 0.5 cores"),
        (DecisionKind.RESTORE, 667, Mode.THROTTLE, "gave back 0.667 cores"),
        (DecisionKind.OFFER, 0, Mode.THROTTLE, "0 cores"),
        (DecisionKind.DESCHEDULE, 0, Mode.THROTTLE, "proposes no move"),
        (DecisionKind.DESCHEDULE, 2, Mode.THROTTLE, "proposes 2 moves"),
        (DecisionKind.DESCHEDULE, 1, Mode.OBSERVE, "would propose 1 move"),
    ],
)
def test_an_outcome_is_described_as_it_was(kind: DecisionKind, result: int, mode: Mode, words: str) -> None:
    assert outcome(decision(kind, result, mode=mode)) == words


def test_a_throttle_that_is_left_to_weights_says_so() -> None:
    record = decision(DecisionKind.THROTTLE, 500)
    left = record.model_copy(update={"reason": Reason.THROTTLE_LEFT_TO_WEIGHTS})
    assert outcome(left) == "left to CPU weights; limits would take back 0.5 cores"


def test_a_claim_shows_what_was_asked_and_given_and_not_what_is_left() -> None:
    admitted = decision(DecisionKind.CLAIM, -500).model_copy(update={"remaining_because": "admitted with cpu 2 of 4"})
    assert outcome(admitted) == "admitted with cpu 2 of 4"


def test_what_goes_back_because_nothing_may_be_throttled_any_more_is_really_given_back() -> None:
    record = decision(DecisionKind.RESTORE, -700, mode=Mode.OBSERVE)
    assert outcome(record.model_copy(update={"reason": Reason.RESTORE_MODE_CHANGED})) == "gave back 0.7 cores"


def test_the_remaining_gap_is_shown_with_its_reason_also_in_the_chain() -> None:
    record = decision(DecisionKind.THROTTLE, 0, remaining=800)
    assert shortfall(record) == "0.8 cores remain: all are at their floor"
    assert shortfall(decision(DecisionKind.THROTTLE, 800)) == ""
    step = chain_of(record, trigger=None, observations=[], effect=None).steps[0]
    assert "found nothing to take back; 0.8 cores remain: all are at their floor" in step.summary


@given(st.integers(-(10**6), 10**6))
def test_an_amount_reads_back_as_itself(value: int) -> None:
    number, word = amount(value, "milli").split()
    assert round(float(number) * 1000) == value
    assert word == ("core" if number in ("1", "-1") else "cores")


@given(st.uuids())
def test_an_id_is_shortened_to_where_ids_of_one_minute_differ(given_id: object) -> None:
    assert short(str(given_id)) == "…" + str(given_id)[-8:]
    assert short("policy default") == "policy default"
