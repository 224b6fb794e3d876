"""Nodes that need attention, throttled nodes and since when, capacity gained."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.bus.admin.broker_admin import ClosedAdmin
from slackwater.console.domain.agent import agent_lines
from slackwater.console.domain.fleet import FRESH, gained, held_pods, is_fresh, order, state_of
from slackwater.console.domain.formatting import equation
from slackwater.console.domain.views import DecisionSummary, IntentView, NodeView, ObservationView, PodView, UsagePoint
from slackwater.console.usecases.fleet_level import FleetLevelRecorder
from slackwater.console.usecases.node_page import held_share, node_page
from slackwater.console.usecases.overview import Overview, overview_page
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action, DecisionRecord, Replay, Term
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import lent_use

NOW = EPOCH + timedelta(hours=1)


def pod(limit: int | None, original: int | None = None) -> PodView:
    return PodView(
        uid="u",
        name="p",
        namespace="n",
        node="edge",
        workload="w",
        tier="batch",
        qos="BE",
        priority=5000,
        request=Resources(),
        usage=Resources(),
        cpu_p95_milli=0,
        cpu_pressure=None,
        throttled_ratio=None,
        cpu_limit_milli=limit,
        original_cpu_limit_milli=original,
        throttled=limit is not None,
        started_at=EPOCH,
        reported_at=NOW,
    )


def action(second: int, before: int | None, after: int | None, kind: str = "throttle") -> DecisionSummary:
    change = Action(
        pod_uid="u",
        pod_name="p",
        tier="batch",
        cpu_limit_before_milli=before,
        cpu_limit_after_milli=after,
        released_milli=0,
    )
    return DecisionSummary(
        id=f"d{second}",
        kind=DecisionKind(kind),
        node="edge",
        subject="cpu",
        service="ensurance",
        rule="r",
        mode=Mode.THROTTLE,
        reason=Reason.THROTTLE_WATERLINE_CROSSED if kind == "throttle" else Reason.RESTORE_HEADROOM,
        decided_at=EPOCH + timedelta(seconds=second),
        result=0,
        unit="milli",
        remaining=0,
        remaining_because="",
        actions=(change,),
    )


def test_a_pod_is_held_since_the_decision_that_found_it_with_its_own_limit() -> None:
    history = [action(1, None, 900), action(2, 900, None, "restore"), action(10, None, 900), action(20, 900, 400)]
    (guard,) = held_pods([pod(400)], history)
    assert (guard.since, guard.decision_id) == (EPOCH + timedelta(seconds=10), "d20")


def test_a_restore_in_steps_is_the_decision_in_force_but_not_the_beginning() -> None:
    (guard,) = held_pods([pod(600)], [action(10, None, 400), action(30, 400, 600, "restore")])
    assert (guard.since, guard.decision_id, guard.reason) == (
        EPOCH + timedelta(seconds=10),
        "d30",
        Reason.RESTORE_HEADROOM,
    )


def test_what_is_not_known_of_a_held_pod_is_not_made_up() -> None:
    (guard,) = held_pods([pod(400)], [])
    assert (guard.since, guard.reason, guard.decision_id) == (None, None, None)
    assert held_pods([pod(None)], [action(1, None, 400)]) == []


def test_a_pod_that_was_just_restored_is_not_held() -> None:
    history = [action(1, None, 400), action(20, 400, None, "restore")]
    assert held_pods([replace(pod(400), reported_at=EPOCH + timedelta(seconds=19))], history) == []


def test_a_pod_limited_long_after_its_recorded_restore_is_held_without_a_record() -> None:
    late = replace(pod(400), reported_at=EPOCH + timedelta(seconds=20) + FRESH + timedelta(seconds=1))
    (guard,) = held_pods([late], [action(1, None, 400), action(20, 400, None, "restore")])
    assert (guard.since, guard.after, guard.decision_id) == (None, EPOCH + timedelta(seconds=20), "d20")


def test_a_decision_that_was_only_told_holds_no_pod() -> None:
    told = replace(action(30, 400, 200), reason=Reason.THROTTLE_OBSERVED_ONLY)
    (guard,) = held_pods([pod(400)], [action(10, None, 400), told])
    assert guard.decision_id == "d10"


def report(age: float, pressure: float = 0.0, throttled: int = 0) -> UsagePoint:
    at = NOW - timedelta(seconds=age)
    return UsagePoint("e", "n", at, 5, "interval", Resources(100, 1), None, {}, None, pressure, None, throttled, 1)


@pytest.mark.parametrize(
    ("liveness", "age", "state"),
    [("fresh", 3, "fresh"), (None, 3, "fresh"), ("fresh", 25, "stale"), ("lost", 3, "lost"), ("stale", 3, "stale")],
)
def test_a_node_is_judged_by_the_age_of_what_we_have(liveness: str | None, age: float, state: str) -> None:
    assert state_of(NodeView("n", liveness=liveness, usage=report(age)), NOW) == state


def test_the_last_report_of_an_earlier_run_is_not_taken_for_now() -> None:
    node = NodeView("n", liveness="fresh", usage=report(3600))
    assert not is_fresh(node, NOW)
    assert state_of(NodeView("n", liveness="fresh"), NOW) == "unknown"


def test_nodes_that_need_attention_come_first_and_rows_keep_their_order() -> None:
    nodes = [
        NodeView("calm", usage=report(1, 0.01)),
        NodeView("held", usage=report(1, 0.01, throttled=1)),
        NodeView("silent", usage=report(100)),
        NodeView("worse", usage=report(1, 0.4)),
        NodeView("above-b", usage=report(1, 0.14)),
        NodeView("above-a", usage=report(1, 0.11)),
    ]
    names = [node.name for node in sorted(nodes, key=lambda node: order(node, NOW, 0.1))]
    assert names == ["worse", "above-a", "above-b", "silent", "held", "calm"]


@given(st.integers(0, 5760), st.integers(0, 10**12), st.integers(0, 10**12))
def test_gains_are_levels_times_their_seconds_and_never_cover_more_than_the_time(
    levels: int, lent: int, used: int
) -> None:
    found = gained(EPOCH, NOW, levels, lent_use(Resources(lent, 2**30), {"batch": Resources(used, 2**31)}))
    assert found.lent_core_hours == pytest.approx(lent / 1000 * 15 / 3600)
    assert found.used_gib_hours == found.beyond_gib_hours == pytest.approx(15 / 3600)
    assert found.used_core_hours <= found.lent_core_hours
    assert found.used_core_hours + found.beyond_core_hours == pytest.approx(used / 1000 * 15 / 3600)
    assert 0 <= found.coverage <= 1


@given(st.lists(st.integers(-(10**9), 10**9), max_size=8))
def test_the_equation_can_be_redone_by_hand(values: list[int]) -> None:
    text = equation(
        DecisionRecord(
            id="d",
            kind=DecisionKind.OFFER,
            node="n",
            subject="batch-cpu",
            service="s",
            rule="r",
            reason=Reason.OFFER_FIRST,
            decided_at=EPOCH,
            trigger_event_id=None,
            inputs=(),
            terms=tuple(Term(name=str(i), value=v) for i, v in enumerate(values)),
            result=sum(values),
            unit="milli",
            replay=Replay(function="m:f", arguments={}),
        )
    )
    left, _, right = text.replace("\N{MINUS SIGN}", "-").partition(" = ")
    total = sum(float(part) for part in left.replace("+ ", "+").replace("- ", "-").split())
    assert total == pytest.approx(float(right.split()[0]))
    assert right.split()[1] in ("core", "cores")


def test_the_held_share_compares_each_sample_with_the_forecast_of_its_time() -> None:
    at = [EPOCH + timedelta(seconds=second) for second in range(4)]
    actual = [(at[0], 9.0), (at[1], 5.0), (at[2], 7.0), (at[3], 6.0)]
    assert held_share(actual, [(at[1], 6.0), (at[3], 6.0)]) == pytest.approx(2 / 3)
    assert held_share(actual, []) is None


INTENT = IntentView("n", "ensurance", 7, NOW - timedelta(seconds=4), 15.0, {"u": 400}, 0, {})
SEEN = ObservationView("o", "n", "ensurance", 7, NOW, NOW, (), ())


def lines(
    node: NodeView, intent: IntentView | None, seen: ObservationView | None, **more: bool
) -> dict[str, tuple[str, str]]:
    return {line.title: (line.text, line.tone) for line in agent_lines(node, intent, seen, **more)}


def test_the_agents_lines_say_what_is_wanted_done_and_until_when() -> None:
    found = lines(NodeView("n", usage=report(1, throttled=1)), INTENT, SEEN)
    assert found["Desired"][0] == "generation 7 of ensurance: 1 limit"
    assert found["Observed"] == ("generation 7 is in force", "good")
    assert found["Lease"] == ("15 s, renewed while ensurance reads the node's reports", "")
    assert "values before 1 throttle " in found["Journal"][0]
    late = replace(INTENT, generation=9, lease_seconds=0.0)
    found = lines(NodeView("n"), late, replace(SEEN, foreign_writers=("kubelet",)))
    assert found["Observed"] == ("generation 7 is in force, 9 is desired", "bad")
    assert found["Lease"][1] == "bad"
    assert found["Foreign writers"] == ("kubelet", "bad")


def test_the_agents_lines_say_what_is_unknown() -> None:
    found = lines(NodeView("n"), None, None)
    assert {title for title, (_, tone) in found.items() if tone == "unknown"} == set(found)
    assert "broker" in lines(NodeView("n"), None, None, broker=False)["Desired"][0]


async def test_levels_are_kept_on_round_times_and_only_when_a_node_reports(model: MemoryReadModel) -> None:
    clock = FakeClock(NOW + timedelta(seconds=7))
    keep = FleetLevelRecorder(model, clock)
    assert await keep() is False
    await model.save_usage([(replace(report(-5), node="n"), [])])
    assert await keep() is True
    assert await keep() is True
    (kept,) = await model.levels(EPOCH, NOW + timedelta(hours=1), 15)
    assert (kept.at, kept.nodes) == (NOW, 1)
    assert keep.seconds_to_next() == pytest.approx(8)


async def test_many_readers_cost_as_much_as_one(model: MemoryReadModel) -> None:
    clock = FakeClock(NOW)
    overview = Overview(model, clock)
    first = await overview("6h", "cpu")
    assert await overview("6h", "cpu") is first
    assert await overview("1h", "nonsense") is await overview("nonsense", "cpu")
    await clock.advance(1.5)
    assert await overview("6h", "cpu") is not first


async def test_old_sums_are_not_shown_as_if_they_were_now(told: MemoryReadModel, clock: FakeClock) -> None:
    now = clock.now() + FRESH
    page = await overview_page(told, now)
    assert page.level.nodes == 0
    assert page.totals.fresh == 0
    assert page.level.silent == page.totals.nodes > 0
    assert {row.state for row in page.attention} == {"stale"}
    assert (await node_page(told, ClosedAdmin(), "edge-7", now)).state == "stale"
