"""The budget of decision records: bounded bytes within any time, no step lost, episodes numbered without holes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Replay
from slackwater.decisions.record_budget import (
    MOST_LISTED,
    STEP_SPACING,
    RecordAccount,
    RecordBudget,
    Recorded,
    RecordForm,
    left_bytes,
    recorded,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
BUDGETS = st.builds(RecordBudget, st.integers(0, 60_000), st.integers(0, 20_000))


def decision(number: int, at: datetime, pods: int = 3, kind: DecisionKind = DecisionKind.THROTTLE) -> DecisionRecord:
    return DecisionRecord(
        id=f"d{number}",
        kind=kind,
        node="n1",
        subject="cpu",
        service="ensurance",
        rule="r",
        reason=Reason.THROTTLE_WATERLINE_CROSSED,
        decided_at=at,
        trigger_event_id=None,
        inputs=(),
        terms=(),
        result=0,
        unit="milli-cores",
        alternatives=tuple(Alternative(what=f"pod-{n}-{number * n}", rejected_because="calm") for n in range(pods)),
        replay=Replay(function="m:f", arguments={f"pod-{n}": number * n * 7919 for n in range(10 * pods)}),
    )


def size_of(record: DecisionRecord) -> int:
    return len(record.model_dump_json())


def run(steps: list[tuple[int, int, bool]], budget: RecordBudget, **options: Any) -> list[tuple[datetime, Recorded]]:
    account, at, made = RecordAccount(), START, []
    for number, (pause_seconds, pods, continues) in enumerate(steps, 1):
        at += timedelta(seconds=pause_seconds)
        step = recorded(account, decision(number, at, pods, **options), budget, at, size_of, continues=continues)
        account = step.account
        made.append((at, step))
    return made


STEPS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 30), st.booleans()), max_size=60)


@given(steps=STEPS, budget=BUDGETS)
def test_a_node_publishes_at_most_its_burst_and_what_is_refilled(
    steps: list[tuple[int, int, bool]], budget: RecordBudget
) -> None:
    made = [(at, size_of(step.record)) for at, step in run(steps, budget) if step.record is not None]
    for first in range(len(made)):
        spent = 0
        for at, size in made[first:]:
            spent += size
            assert spent <= budget.most_bytes(at - made[first][0] + timedelta(seconds=1))


@given(steps=STEPS, budget=BUDGETS)
def test_no_step_is_lost_and_each_is_told_once(steps: list[tuple[int, int, bool]], budget: RecordBudget) -> None:
    made = run(steps, budget)
    told, beyond = list[str](), 0
    for _, step in made:
        if step.record is not None:
            told += [one.id for one in step.record.listed] + [step.record.id]
            beyond += step.record.listed_beyond
    last = made[-1][1].account if made else RecordAccount()
    told += [one.id for one in last.waiting]
    assert len(told) + beyond + last.waiting_beyond == len(steps)
    assert len(set(told)) == len(told)
    assert len(last.waiting) <= MOST_LISTED


@given(steps=STEPS, budget=BUDGETS)
def test_steps_of_an_episode_are_numbered_without_holes(
    steps: list[tuple[int, int, bool]], budget: RecordBudget
) -> None:
    number = 0
    for (_, _, continues), (_, step) in zip(steps, run(steps, budget), strict=True):
        number = number + 1 if continues and number else 1
        assert step.account.steps == number
        if step.record is not None:
            assert (step.record.step, step.record.episode) == (number, step.account.episode)


def test_a_compact_record_says_so_and_keeps_actions_terms_and_reason() -> None:
    whole = size_of(decision(1, START, 30))
    made = recorded(
        RecordAccount(), decision(1, START, 30), RecordBudget(whole - 1, 0), START, size_of, continues=False
    )
    assert made.form is RecordForm.COMPACT
    assert made.record is not None
    assert made.record.compact
    assert made.record.replay.function == "m:f"
    assert not made.record.replay.arguments
    assert not made.record.alternatives


@pytest.mark.parametrize("kind", list(DecisionKind))
def test_only_evictions_and_steps_of_autonomy_are_recorded_without_any_budget(kind: DecisionKind) -> None:
    made = recorded(RecordAccount(), decision(1, START, kind=kind), RecordBudget(0, 0), START, size_of, continues=False)
    is_always = kind in (DecisionKind.EVICT, DecisionKind.AUTONOMY)
    assert made.form is (RecordForm.COMPACT if is_always else RecordForm.LISTED)
    assert made.account.left_bytes == 0


@given(left=st.integers(0, 10_000), seconds=st.integers(-10_000, 10_000_000), budget=BUDGETS)
def test_the_bucket_never_overflows_and_never_shrinks_by_time(left: int, seconds: int, budget: RecordBudget) -> None:
    left = min(left, budget.burst_bytes)
    held = left_bytes(RecordAccount(left_bytes=left, at=START), budget, START + timedelta(seconds=seconds))
    assert left <= held <= budget.burst_bytes


def test_a_node_that_is_throttled_without_end_has_a_record_every_two_hours() -> None:
    """With all of its listed steps, a record waited for seven hours of the default budget."""
    budget, pause = RecordBudget(131_072, 3_500), timedelta(seconds=15)
    account, at, records = RecordAccount(), START, list[tuple[datetime, DecisionRecord]]()
    for number in range(int(timedelta(days=1) / pause)):
        step = recorded(account, decision(number, at), budget, at, lambda r: size_of(r) + 1700, continues=True)
        account, at = step.account, at + pause
        if step.record is not None:
            records.append((at, step.record))
    late = [(at, record) for at, record in records if at > START + timedelta(hours=2)]
    assert late
    assert max(b[0] - a[0] for a, b in pairwise(late)) <= timedelta(hours=2)
    assert all(record.listed and record.listed[-1].decided_at == record.decided_at - pause for _, record in late)


def test_half_of_the_burst_lasts_a_record_a_minute() -> None:
    """Minutes after the first throttle, records show what happened since, and not only its first seconds."""
    budget, pause = RecordBudget(131_072, 3_500), timedelta(seconds=1.5)
    account, at, times = RecordAccount(), START, list[datetime]()
    while at < START + timedelta(minutes=10):
        step = recorded(account, decision(len(times), at), budget, at, lambda r: size_of(r) + 1700, continues=True)
        account, at = step.account, at + pause
        if step.record is not None:
            times.append(at)
    assert max(after - before for before, after in pairwise(times)) <= STEP_SPACING + pause
    assert START + timedelta(minutes=5) < times[-1]


@pytest.mark.parametrize("reason", [Reason.RESTORE_COMPLETE, Reason.RESTORE_WITHOUT_EFFECT])
def test_the_end_of_an_episode_is_recorded_at_once_with_its_steps(reason: Reason) -> None:
    budget, account = RecordBudget(20_000, 0), RecordAccount()
    forms = list[RecordForm]()
    for number in range(8):
        at = START + timedelta(seconds=number)
        step = recorded(account, decision(number, at), budget, at, lambda _: 3_000, continues=number > 0)
        account, forms = step.account, [*forms, step.form]
    assert forms == [RecordForm.FULL] * 3 + [RecordForm.LISTED] * 5
    end = decision(8, START + timedelta(seconds=8), kind=DecisionKind.RESTORE).model_copy(update={"reason": reason})
    made = recorded(account, end, budget, START + timedelta(seconds=8), lambda _: 3_000, continues=True)
    assert made.record is not None
    assert ([one.id for one in made.record.listed], made.record.step) == (["d3", "d4", "d5", "d6", "d7"], 9)


def test_listed_steps_are_bounded_and_the_rest_is_counted() -> None:
    made = run([(1, 1, True)] * (MOST_LISTED + 20), RecordBudget(0, 0))
    account = made[-1][1].account
    assert (len(account.waiting), account.waiting_beyond) == (MOST_LISTED, 20)
    told = recorded(
        account, decision(999, START), RecordBudget(100_000, 0), START + timedelta(days=1), size_of, continues=True
    )
    assert told.form is RecordForm.LISTED, "the bucket was used up, and nothing is refilled"
    evicted = recorded(
        account, decision(999, START, kind=DecisionKind.EVICT), RecordBudget(0, 0), START, size_of, continues=True
    )
    assert evicted.record is not None
    assert (len(evicted.record.listed), evicted.record.listed_beyond) == (MOST_LISTED, 20)
