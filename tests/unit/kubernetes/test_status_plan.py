"""The plan of writes to node status: what differs, in which order, how many, and what a record explains."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.apiserver.resource_names import LENT, OWN_NAMES
from slackwater.decisions.reasons import Reason
from slackwater.events.decision_recorded import decision_event
from slackwater.kubernetes.domain.status_plan import (
    LentAmount,
    LentOffer,
    NodeStatusFacts,
    StatusPlan,
    StatusPolicy,
    StatusSnapshot,
    TokenBucket,
    patch_of,
    plan_status_patches,
    tokens,
    wanted_amounts,
)
from slackwater.kubernetes.usecases.status_record import status_record

NOW = datetime(2026, 1, 5, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
CPU, MEMORY = "slackwater.io/batch-cpu", "slackwater.io/batch-memory"
POLICY = StatusPolicy()


def offer(cpu: int = 0, memory: int = 0) -> LentOffer:
    lent = (LentAmount("batch-cpu", cpu, "d1"), LentAmount("batch-memory", memory, "d2")) if cpu or memory else ()
    return LentOffer("event-1", NOW, lent)


def node(
    name: str = "n", lends: LentOffer | None = None, status: Mapping[str, int] | None = None, **more: Any
) -> NodeStatusFacts:
    status = status or {}
    return NodeStatusFacts(
        name, f"uid-{name}", status, more.pop("owned", frozenset(status)), more.pop("borrowed", {}), lends, **more
    )


def plan(
    *nodes: NodeStatusFacts,
    policy: StatusPolicy = POLICY,
    bucket: TokenBucket | None = None,
    since: datetime | None = LONG_AGO,
) -> StatusPlan:
    return plan_status_patches(StatusSnapshot(nodes, policy, bucket or TokenBucket(), since), NOW)


def test_an_offer_is_written_under_own_names_and_with_the_setting_under_the_aliases_too() -> None:
    (patch,) = plan(node(lends=offer(12_000, 1 << 30))).patches
    assert patch.amounts == {CPU: 12_000, MEMORY: 1 << 30}
    assert patch.reason is Reason.STATUS_OFFER_CHANGED
    (patch,) = plan(node(lends=offer(1, 2)), policy=replace(POLICY, aliases=True)).patches
    assert set(patch.amounts) == {CPU, MEMORY, "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"}


def test_aliases_leave_when_the_setting_does() -> None:
    with_aliases = wanted_amounts(offer(1, 2), replace(POLICY, aliases=True))
    (patch,) = plan(node(lends=offer(1, 2), status=with_aliases)).patches
    assert set(patch.amounts) == {CPU, MEMORY}
    assert [(change.name, change.after) for change in patch.changes] == [
        ("kubernetes.io/batch-cpu", None),
        ("kubernetes.io/batch-memory", None),
    ]


def test_an_equal_status_is_not_written_again_but_one_of_another_manager_is_taken_up() -> None:
    same = {CPU: 5, MEMORY: 6}
    assert plan(node(lends=offer(5, 6), status=same)).patches == ()
    (patch,) = plan(node(lends=offer(5, 6), status=same, owned=frozenset())).patches
    assert {(change.before, change.after) for change in patch.changes} == {(5, 5), (6, 6)}


def test_amounts_of_others_are_left_alone() -> None:
    foreign = {"kubernetes.io/batch-cpu": 9}
    assert plan(node(status=foreign, owned=frozenset())).patches == ()


@pytest.mark.parametrize(
    ("lends", "policy", "reason"),
    [
        (offer(), POLICY, Reason.STATUS_OFFER_WITHDRAWN),
        (None, POLICY, Reason.STATUS_WITHOUT_OFFER),
        (offer(5, 6), replace(POLICY, enabled=False), Reason.STATUS_DISABLED),
        (None, replace(POLICY, enabled=False), Reason.STATUS_DISABLED),
    ],
)
def test_everything_is_withdrawn_where_nothing_is_lent(
    lends: LentOffer | None, policy: StatusPolicy, reason: Reason
) -> None:
    (patch,) = plan(node(lends=lends, status={CPU: 5, MEMORY: 6}), policy=policy).patches
    assert (patch.amounts, patch.reason) == ({}, reason)


@pytest.mark.parametrize(("since", "again_seconds"), [(None, None), (NOW - timedelta(seconds=20), 100.0)])
def test_a_restart_withdraws_nothing_before_offers_had_time_to_arrive(
    since: datetime | None, again_seconds: float | None
) -> None:
    made = plan(node(status={CPU: 5}), since=since)
    assert made.patches == ()
    assert made.again_at == (None if again_seconds is None else NOW + timedelta(seconds=again_seconds))


def test_falls_go_first_and_among_them_the_node_with_the_least_headroom() -> None:
    rises = node("rises", offer(9, 9), {CPU: 1, MEMORY: 1}, borrowed={CPU: 9})
    nodes = [
        rises,
        node("new", offer(9, 9)),
        node("roomy", offer(50, 9), {CPU: 100, MEMORY: 9}, borrowed={CPU: 10}),
        node("tight", offer(50, 9), {CPU: 100, MEMORY: 9}, borrowed={CPU: 49}),
        node("collapsed", offer(), {CPU: 100, MEMORY: 9}, borrowed={CPU: 1}),
        node("idle", offer(50, 9), {CPU: 100, MEMORY: 9}),
        node("idle-slump", offer(10, 9), {CPU: 100, MEMORY: 9}),
    ]
    assert [patch.node for patch in plan(*nodes).patches] == [
        "collapsed",
        "tight",
        "roomy",
        "idle-slump",
        "idle",
        "rises",
        "new",
    ]


def test_writes_beyond_the_burst_wait_for_tokens() -> None:
    policy = replace(POLICY, burst=2, writes_per_second=4.0)
    nodes = [node(f"n{number}", offer(1, 1)) for number in range(5)]
    made = plan(*nodes, policy=policy)
    assert ([patch.node for patch in made.patches], made.deferred) == (["n0", "n1"], 3)
    assert made.again_at == NOW + timedelta(seconds=0.25)
    none = plan(*nodes, policy=policy, bucket=made.bucket)
    assert (none.patches, none.again_at) == ((), made.again_at)


def test_a_refused_node_waits_and_a_written_one_settles() -> None:
    later = NOW + timedelta(seconds=30)
    made = plan(node("refused", offer(1, 1), waits_until=later), node("settling", offer(1, 1), is_settling=True))
    assert (made.patches, made.again_at) == ((), later)
    assert plan(node("refused", offer(1, 1), waits_until=NOW)).patches


def test_a_clock_that_went_back_refills_nothing() -> None:
    assert tokens(TokenBucket(3.0, NOW + timedelta(hours=1)), POLICY, NOW) == 3.0


AMOUNTS = st.dictionaries(st.sampled_from(OWN_NAMES), st.integers(0, 3))
OFFERS = st.none() | st.lists(st.sampled_from(LENT), unique=True).flatmap(
    lambda subjects: st.tuples(*(st.builds(LentAmount, st.just(subject), st.integers(0, 3)) for subject in subjects))
).map(lambda lent: LentOffer("e", NOW, lent))
FACTS = st.builds(
    NodeStatusFacts,
    node=st.sampled_from(["a", "b", "c", "d"]),
    uid=st.just("u"),
    in_status=AMOUNTS,
    owned=st.frozensets(st.sampled_from(OWN_NAMES)),
    borrowed=AMOUNTS,
    offer=OFFERS,
    residual=AMOUNTS,
    waits_until=st.none() | st.just(NOW + timedelta(seconds=5)) | st.just(LONG_AGO),
    is_settling=st.booleans(),
)
POLICIES = st.builds(
    StatusPolicy, enabled=st.booleans(), aliases=st.booleans(), burst=st.integers(1, 3), writes_per_second=st.just(2.0)
)


def applied(facts: NodeStatusFacts, amounts: Mapping[str, int]) -> NodeStatusFacts:
    """The node after a write, as the API server makes it: fields applied before and not named are removed."""
    kept = {name: amount for name, amount in facts.in_status.items() if name not in facts.owned}
    return replace(facts, in_status={**kept, **amounts}, owned=frozenset(amounts), residual={})


@given(
    st.lists(FACTS, max_size=6, unique_by=lambda facts: facts.node), POLICIES, st.sampled_from([None, LONG_AGO, NOW])
)
def test_plans_write_only_what_differs_and_end_with_nothing_to_do(
    nodes: list[NodeStatusFacts], policy: StatusPolicy, since: datetime | None
) -> None:
    made = plan_status_patches(StatusSnapshot(tuple(nodes), policy, TokenBucket(), since), NOW)
    facts = {entry.node: entry for entry in nodes}
    assert len(made.patches) <= policy.burst
    for patch in made.patches:
        before = facts[patch.node]
        after = applied(before, patch.amounts)
        assert after != before
        assert not before.is_settling
        assert patch_of(after, policy) is None
        record = status_record(patch, before, policy, NOW)
        decision_event(record, None, "kubernetes")
        module, _, name = record.replay.function.partition(":")
        assert getattr(importlib.import_module(module), name)(**record.replay.arguments) == record.result
    settled = [
        applied(f, wanted_amounts(f.offer, policy))
        if f.offer or not policy.enabled
        else replace(f, owned=frozenset(), residual={})
        for f in nodes
    ]
    again = plan_status_patches(StatusSnapshot(tuple(settled), policy, TokenBucket(), since), NOW)
    assert (again.patches, again.deferred) == ((), 0)


def test_a_record_names_the_decisions_behind_the_amounts() -> None:
    facts = node(lends=offer(9_000, 1 << 30), status={CPU: 12_000}, borrowed={CPU: 4_000})
    (patch,) = plan(facts).patches
    record = status_record(patch, facts, POLICY, NOW)
    assert [(term.name, term.note) for term in record.terms] == [
        (CPU, "12000 becomes 9000"),
        (MEMORY, "nothing becomes 1073741824"),
    ]
    assert (record.result, record.unit, record.trigger_event_id) == (2, "amounts", "event-1")
    assert {(entry.name, entry.value, entry.source) for entry in record.inputs} == {
        ("batch-cpu", 9_000, "decision/d1"),
        ("batch-memory", 1 << 30, "decision/d2"),
        (f"requested {CPU}", 4_000, "pods of the node"),
    }
