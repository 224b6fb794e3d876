"""Decisions as rows: an episode, an offer's amounts; a page never loses or repeats a decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.console.domain.episodes import DecisionRow, last_of, rows_of
from slackwater.console.domain.views import DecisionSummary
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action


def step(
    seconds: float,
    *,
    kind: DecisionKind = DecisionKind.THROTTLE,
    episode: str = "",
    number: int = 0,
    node: str = "a",
    subject: str = "cpu",
    pods: tuple[str, ...] = (),
) -> DecisionSummary:
    return DecisionSummary(
        id=f"{node}-{subject}-{seconds:08.2f}",
        kind=kind,
        node=node,
        subject=subject,
        service="ensurance",
        rule="prod-pressure",
        mode=Mode.THROTTLE,
        reason=Reason.THROTTLE_WATERLINE_CROSSED,
        decided_at=EPOCH + timedelta(seconds=seconds),
        result=500,
        unit="milli-cores",
        remaining=0,
        remaining_because="",
        actions=tuple(limited(pod) for pod in pods),
        episode=episode,
        step=number,
    )


def limited(pod: str) -> Action:
    return Action(
        pod_uid=pod,
        pod_name=pod,
        tier="batch",
        cpu_limit_before_milli=None,
        cpu_limit_after_milli=500,
        released_milli=500,
    )


def test_steps_of_an_episode_are_one_row_with_those_that_have_no_record() -> None:
    steps = [
        step(90, kind=DecisionKind.RESTORE, episode="e", number=23, pods=("x",)),
        step(60, kind=DecisionKind.EVICT, node="b"),
        step(30, episode="e", number=2, pods=("y", "x")),
        step(0, episode="e", number=1, pods=("x",)),
    ]
    row, other = rows_of(steps, 40)
    assert (row.newest, row.since, row.lasted) == (steps[0], EPOCH, timedelta(seconds=90))
    assert row.count == 23
    assert row.kinds == ((DecisionKind.THROTTLE, 2), (DecisionKind.RESTORE, 1))
    assert row.named == (steps[0],)
    assert set(row.effect.pods) == {"x", "y"}
    assert (other.count, other.named) == (1, (steps[1],))


def test_the_amounts_of_one_offer_are_one_row() -> None:
    amounts = [
        step(5, kind=DecisionKind.OFFER, subject=subject) for subject in ("mid-cpu", "batch-memory", "batch-cpu")
    ]
    later = step(9, kind=DecisionKind.OFFER, subject="batch-cpu")
    elsewhere = step(5, kind=DecisionKind.OFFER, subject="batch-cpu", node="b")
    rows = rows_of([later, *amounts, elsewhere], 40)
    assert [len(row.steps) for row in rows] == [1, 3, 1]
    assert [decision.subject for decision in rows[1].named] == ["batch-cpu", "batch-memory", "mid-cpu"]
    assert rows[1].count == 1, "an offer has no steps"


DECISIONS = st.lists(st.tuples(st.sampled_from(["", "e", "f", "g"]), st.sampled_from("ab")), max_size=40)


@given(DECISIONS, st.integers(1, 5))
def test_pages_of_rows_contain_every_decision_once_in_order(drawn: list[tuple[str, str]], most: int) -> None:
    left = [
        step(1000 - place, episode=episode and f"{node}{episode}", number=len(drawn) - place, node=node)
        for place, (episode, node) in enumerate(drawn)
    ]
    read: list[DecisionSummary] = []
    while left:
        rows = rows_of(left, most)
        assert 1 <= len(rows) <= most
        assert all({decision.node for decision in row.steps} == {row.newest.node} for row in rows)
        page = sorted((each for row in rows for each in row.steps), key=lambda each: each.decided_at, reverse=True)
        assert page == left[: len(page)], "a page is the newest part of what is left"
        assert last_of(rows) == page[-1]
        read, left = read + page, left[len(page) :]
    assert len(read) == len(drawn)


def test_a_row_of_one_decision_is_that_decision() -> None:
    only = step(0, pods=("x",))
    row = DecisionRow((only,))
    assert (row.named, row.count, row.lasted, row.effect.pods) == ((only,), 1, timedelta(), ("x",))


def test_an_episode_that_evicted_is_one_of_evictions_whatever_its_last_step_was() -> None:
    evicted = step(30, kind=DecisionKind.EVICT, episode="e", number=2, pods=("x",))
    row = DecisionRow((step(60, episode="e", number=3), evicted, step(0, episode="e", number=1, pods=("x", "y"))))
    assert row.kind is DecisionKind.THROTTLE, "nothing ended yet"
    actions = tuple(each.model_copy(update={"evicted": True}) for each in evicted.actions)
    row = DecisionRow((row.steps[0], replace(evicted, actions=actions), row.steps[2]))
    assert (row.kind, row.effect.evicted, row.effect.pods) == (DecisionKind.EVICT, ("x",), ("x", "y"))
