from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Replay, Term


def record(values: list[int], result: int) -> DecisionRecord:
    return DecisionRecord(
        id="d", kind=DecisionKind.OFFER, node="n", subject="batch-cpu", service="colocation", rule="usage@1",
        reason=Reason.OFFER_FIRST, decided_at=datetime(2026, 1, 1, tzinfo=UTC), trigger_event_id=None, inputs=(),
        terms=tuple(Term(name=f"t{i}", value=v) for i, v in enumerate(values)), result=result, unit="milli-cores",
        replay=Replay(function="m:f", arguments={}),
    )  # fmt: skip


@given(st.lists(st.integers(min_value=-(10**12), max_value=10**12), max_size=12))
def test_a_record_whose_terms_add_up_survives_the_wire(values: list[int]) -> None:
    made = record(values, sum(values))

    assert DecisionRecord.model_validate_json(made.model_dump_json()) == made


@given(
    st.lists(st.integers(min_value=-(10**6), max_value=10**6), max_size=5),
    st.integers(-(10**18), 10**18).filter(lambda n: n != 0),
)
def test_a_record_that_does_not_add_up_cannot_be_made(values: list[int], error: int) -> None:
    with pytest.raises(ValidationError, match="add up"):
        record(values, sum(values) + error)


def test_every_reason_names_the_kind_it_belongs_to() -> None:
    kinds = tuple(f"{kind}_" for kind in DecisionKind)

    assert [reason for reason in Reason if not reason.startswith(kinds)] == []
