"""The invariants of starts and of disruption budgets fail on a planted violation, and hold without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from test_invariants_of_moves import EPOCH, MoveLedger, after_admission, ended, evicting, waiting
from tests.support.reports import usage
from tests.world.invariants import Violation
from tests.world.invariants.migration.grants import WithdrawnJobsEvictNothing
from tests.world.invariants.migration.pod_budgets import DisruptionBudgetsHold
from tests.world.invariants.migration.starts import FilesDecideWherePodsGo, MovedPodsRunOnce
from tests.world.move_habits import BUDGETS, PAUSES, SHORT_LEASES, STARTS
from tests.world.swarm import draw
from tests.world.trace import Kind

from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved, ObservedStart
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.model.start_states import StartState
from slackwater.podmigration.jobs import MigrationReason, MigrationStep, MoveOutcome


def stored(event: Any) -> tuple[Kind, str, Any]:
    return Kind.STORED, f"sw.v1.{event.TYPE}.1.x", event


def starting(attempt: int = 0, node: str = "n1") -> StoredJob:
    """The move of web-0 from n0 to n1, with its start."""
    made = evicting(waiting("a", "web-0"))
    job = replace(made.job, starts_replacement=True, evict_by_s=EPOCH.timestamp() + 300.0)
    if attempt:
        job = replace(job, step=MigrationStep.REPLACING, start_attempt=attempt, start_node=node)
    pod = replace(made.pod, digest="d1")
    return replace(made, job=job, pod=pod, gone_s=EPOCH.timestamp() if attempt else None)


def running(*uids: str) -> MoveLedger:
    ledger = MoveLedger(MovedPodsRunOnce)
    for uid in uids:
        ledger.step(Kind.POD_STARTED, uid, workload="web", node="n0")
    ledger.commit(starting())
    return ledger


def answer_end(ledger: MoveLedger) -> None:
    completed = EvictionCompleted(
        id="a-1-1", node="n0", pod_uid="web-0", writer="migration", outcome=EvictionOutcome.TERMINATED,
        completed_at=EPOCH, decision_id="d",
    )  # fmt: skip
    ledger.step(Kind.POD_ENDED, "web-0", by="a-1-1")
    ledger.step(*stored(completed))


def answer_start(ledger: MoveLedger, state: StartState) -> None:
    observed = IntentObserved(
        node="n1", writer="migration", generation=1, boot_epoch="1", received_at=EPOCH, observed_at=EPOCH,
        starts=(ObservedStart(id="a-1-start-1", state=state),),
    )  # fmt: skip
    ledger.step(*stored(observed))


def test_a_start_before_the_old_pod_is_gone_or_its_end_is_answered_is_found() -> None:
    with pytest.raises(Violation, match="a-1-start-1 is asked for; web-0 runs"):
        running("web-0").commit(starting(1))
    ledger = running("web-0")
    ledger.step(Kind.POD_ENDED, "web-0", by="a-1-1")
    with pytest.raises(Violation, match="the eviction of web-0 is not answered"):
        ledger.commit(starting(1))


def test_a_second_pod_of_a_move_is_found() -> None:
    ledger = running("web-0")
    answer_end(ledger)
    ledger.commit(starting(1))
    ledger.step(Kind.POD_STARTED, "web-1", workload="web", node="n1", start="a-1-start-1")
    with pytest.raises(Violation, match="web-2 is started by a-1-start-2, which no committed job asks for"):
        ledger.step(Kind.POD_STARTED, "web-2", workload="web", node="n0", start="a-1-start-2")
    with pytest.raises(Violation, match="a-1-start-2 is asked for; the answer to the one before was nothing"):
        ledger.commit(starting(2, "n0"))
    ledger = running("web-0")
    answer_end(ledger)
    ledger.commit(starting(1))
    ledger.step(Kind.POD_STARTED, "web-1", workload="web", node="n1", start="a-1-start-1")
    answer_start(ledger, StartState.FAILED)
    ledger.commit(starting(2, "n0"))
    with pytest.raises(Violation, match=r"a-1-start-2 begins web-2; of its move \['web-1', 'web-2'\] run"):
        ledger.step(Kind.POD_STARTED, "web-2", workload="web", node="n0", start="a-1-start-2")


def test_a_move_that_says_something_else_than_its_start_did_or_waits_for_ever_is_found() -> None:
    ledger = running("web-0")
    answer_end(ledger)
    with pytest.raises(Violation, match="a-1 evicted web-0 and ended as pod_vanished"):
        ledger.commit(ended(starting(), MoveOutcome.POD_VANISHED))
    ledger.commit(starting(1))
    with pytest.raises(Violation, match="a-1-start-1, which is answered with nothing"):
        ledger.invariant.at_rest()
    moved = ended(starting(1), MoveOutcome.MOVED)
    with pytest.raises(Violation, match="a-1 ended as moved on n1: web-7; began "):
        ledger.commit(replace(moved, job=replace(moved.job, replacement="web-7")))


def described(**labels: str) -> NodeDescribed:
    facts = NodeFacts(
        "n0", "simulated", Resources(8000, 1 << 30), Resources(), CpuTopology(8, 8, 1, 1), "6.1", "v2", "linux", "1",
        labels={f"workload.slackwater.io/{name}": digest for name, digest in labels.items()},
    )  # fmt: skip
    return NodeDescribed(facts=facts, boot_epoch="1", described_at=EPOCH)


def test_a_target_without_the_file_and_a_start_that_is_not_taken_back_are_found() -> None:
    made = starting()
    made = replace(made, pod=replace(made.pod, workload="web"))
    ledger = MoveLedger(FilesDecideWherePodsGo)
    with pytest.raises(Violation, match="a-1 goes to n1, which has no file"):
        ledger.commit(made)
    failed = ended(replace(starting(1), pod=made.pod), MoveOutcome.REPLACEMENT_PENDING, MigrationReason.FAILED_START)
    failed = replace(failed, ended_s=EPOCH.timestamp() + 5000.0)
    for digest, is_found in (("d1", True), ("other", False)):
        ledger = MoveLedger(FilesDecideWherePodsGo)
        ledger.step(*stored(described(web=digest)), at=-60.0)
        for at in (-5.0, 15.0):
            report = UsageReported(
                node="n0", boot_epoch="1", sequence=1, sampled_at=EPOCH, window_seconds=5, node_usage=usage(1, 1),
                system_usage=usage(1, 1), pods=(),
            )  # fmt: skip
            ledger.step(*stored(report), at=at)
        ledger.invariant._targets["a-1"] = "n1"  # type: ignore[attr-defined]
        if is_found:
            with pytest.raises(Violation, match="a-1 has not gone back to n0, which answers and has the file"):
                ledger.commit(failed)
        else:
            ledger.commit(failed)


def budget(allowed: int, at_s: float) -> DisruptionBudgetChanged:
    return DisruptionBudgetChanged(
        namespace="shop", name="web", selector={"matchLabels": {"app": "web"}}, min_available="1", expected=3,
        healthy=3, allowed=allowed, changed_at=EPOCH + timedelta(seconds=at_s),
    )  # fmt: skip


def test_a_move_beyond_what_a_budget_allows_is_found() -> None:
    ledger = MoveLedger(DisruptionBudgetsHold)
    clock: Any = ledger.invariant.world.clock_of("fleet")
    clock.now = lambda: EPOCH
    ledger.step(*stored(budget(1, 0.0)), at=-90.0)
    ledger.commit(after_admission(waiting("a")))
    ledger.commit(ended(after_admission(waiting("a")), MoveOutcome.OLD_POD_RUNS))
    ledger.commit(after_admission(waiting("b")))
    with pytest.raises(Violation, match="c-1 is admitted; shop/web has 2 of 1"):
        ledger.commit(after_admission(waiting("c")))
    ledger.step(Kind.POD_ENDED, "pod-of-b", by="b-1-1")
    ledger.step(Kind.POD_ENDED, "pod-of-c", by="the node was lost")
    with pytest.raises(Violation, match="d-1 is admitted; shop/web has 2 of 1"):
        ledger.commit(after_admission(waiting("d")))
    ledger.step(*stored(budget(2, 6000.0)), at=19.0)
    ledger.commit(after_admission(waiting("e")))


def test_an_abort_that_is_taken_in_and_not_noted_is_found() -> None:
    ledger = MoveLedger(WithdrawnJobsEvictNothing)
    noted = evicting(waiting("a"))
    ledger.commit(replace(noted, job=replace(noted.job, abort_requested=True)), aborts=["a"])
    with pytest.raises(Violation, match="b-1 is evicting; its abort is taken in, and not noted"):
        ledger.commit(evicting(waiting("b")), aborts=["b"])


def test_habits_of_moves_are_drawn_and_leave_other_plans_alone() -> None:
    plans = [draw(seed, seconds=120.0, moves=True) for seed in range(1, 31)]
    counts = {habit: sum(habit in plan.habits for plan in plans) for habit in (STARTS, BUDGETS, PAUSES)}
    assert all(count >= 3 for count in counts.values()), counts
    for plan in plans:
        assert plan.settings["ownership"] == SHORT_LEASES or PAUSES not in plan.habits
        skips = [
            change.spec.get("skipCheckExpectedReplicas", False)
            for change in plan.changes
            if change.kind == "ArbitrationArgs"
        ]
        assert STARTS not in plan.habits or any(skips)
