"""Records that do not repeat, changes without a record and limits beside their document are found."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.world.invariants import Violation
from tests.world.invariants.decisions.changes import ChangesAreRecorded
from tests.world.invariants.decisions.machines import MachinesFollowDecisions
from tests.world.invariants.decisions.repeat import check_repeats
from tests.world.invariants.differences import difference
from tests.world.machine.kernel import AGENT
from tests.world.trace import Kind, Step

from slackwater.agent.domain.desired_state import DesiredState, MemoryLevel, Throttle
from slackwater.agent.domain.weights import Policy
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action, DecisionRecord
from slackwater.decisions.record_budget import RecordAccount, summary_of
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.intent_declared import CpuThrottle, IntentDeclared
from slackwater.events.intent_observed import READ_REFUSED, IntentObserved, ObservedLimit
from slackwater.events.serialized import type_of
from slackwater.fairshare.claims import (
    ClaimRun,
    ClaimState,
    QuotaClaim,
    ReclaimOrder,
    ReclaimReason,
    admit,
    end,
    order_reclaim,
    start,
)
from slackwater.fairshare.reconciliation import ReconciliationSettings
from slackwater.model.tiers import Tier
from slackwater.quota.domain.claim_runs import WorkloadEvidence
from slackwater.quota.domain.finding_replay import observed_again
from slackwater.quota.domain.running_pods import RunningPod
from slackwater.quota.usecases.claim_records import finding_record
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Options
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.decision_record import release_records
from slackwater.waterline.loop.applied_limits import Throttled
from slackwater.waterline.node_guard import GuardState, release
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.rulebook import Rulebook

NOW = datetime(2026, 1, 5, tzinfo=UTC)
RULES = ReconciliationSettings()


def release_record() -> DecisionRecord:
    state = GuardState((Throttled("a", "a", "batch", 100, None),))
    plan, _ = release(state, 4000)
    assert plan.of(ActionKind.RESTORE)
    source = DecisionContext("node-00", 4000, state, Rulebook("book", Policies()), Options(Mode.OBSERVE), NOW)
    (record,) = release_records(lambda: "r-1", plan, source)
    return record


def test_a_record_whose_action_does_not_follow_from_its_state_is_found() -> None:
    record = release_record()
    check_repeats(record.model_copy(update={"episode": "e", "step": 3, "trace_id": "t"}))
    wrong = record.actions[0].model_copy(update={"cpu_limit_before_milli": 99})
    with pytest.raises(Violation, match="cpu_limit_before_milli: 99 instead of 100"):
        check_repeats(record.model_copy(update={"actions": (wrong,)}))
    later = record.model_copy(update={"decided_at": NOW + timedelta(seconds=1), "reason": Reason.RESTORE_COMPLETE})
    with pytest.raises(Violation, match="restore_complete"):
        check_repeats(later)


def test_a_record_that_the_world_cannot_repeat_is_found() -> None:
    record = release_record()
    replay = record.replay.model_copy(update={"function": "builtins:dict", "arguments": {}})
    with pytest.raises(Violation, match="cannot repeat"):
        check_repeats(record.model_copy(update={"replay": replay}))


def finding_records(tree: str) -> list[DecisionRecord]:
    """One record of each thing that reports can show of a claim, and of workloads without one."""
    now_s = NOW.timestamp()
    asked = QuotaClaim("claim", "quota", Tier.BATCH, {"batch-cpu": 1}, now_s - 900.5, workload="job")
    admitted = admit(asked, {"batch-cpu": 1}, now_s - 900.5)
    runs = start(admitted, now_s - 800.5)
    overdue = order_reclaim(runs, ReclaimOrder(ReclaimReason.LENDER_MIN, now_s - 99.5, now_s - 40.5, "a", "a0"))
    ended = end(runs, ClaimState.RELEASED, now_s - 100.5)
    seen = replace(runs, run=ClaimRun(1, now_s - 800.5))
    pod = RunningPod("uid", "pod", "node-00", "job", "job", {"batch-cpu": 500}, False, now_s - 700.5)
    records = []
    for live, over, pods in (
        ([admitted], [], []), ([asked], [], [pod]), ([runs], [], [pod]), ([overdue], [], [pod]), ([seen], [], []),
        ([], [], [pod]), ([], [ended], [pod]),
    ):  # fmt: skip
        evidence = WorkloadEvidence("job", live, over, pods, ["node-00"], now_s - 300.5, now_s, RULES)
        for claim in [*live, None]:
            decision = observed_again(evidence, now_s, "" if claim is None else claim.id, claim)
            if decision is not None:
                records.append(finding_record(decision, evidence, tree, NOW, "" if claim is None else claim.id, claim))
    return records


@pytest.mark.parametrize("tree", ["", "default", "east"])
def test_a_finding_about_a_claim_is_repeated_and_a_wrong_one_is_found(tree: str) -> None:
    records = finding_records(tree)
    assert {record.reason for record in records} == {reason for reason in Reason if "claim_found_" in reason}
    for record in records:
        check_repeats(record)
        later_s = record.replay.arguments["now_s"] + 1
        later = record.replay.model_copy(update={"arguments": {**record.replay.arguments, "now_s": later_s}})
        wrong: list[dict[str, Any]] = [
            {"replay": later},
            {"result": record.result + 1},
            {"decided_at": NOW + timedelta(seconds=1)},
            {"id": "another"},
            {"remaining_because": "for another reason"},
        ]
        for update in wrong:
            with pytest.raises(Violation, match="repeats with another result"):
                check_repeats(record.model_copy(update=update))


def document(*limits: int, generation: int = 1) -> IntentDeclared:
    return IntentDeclared(
        node="node-00", writer="ensurance", generation=generation, declared_at=NOW, lease_seconds=60,
        throttles=tuple(CpuThrottle(pod_uid="a", cpu_limit_milli=one, decision_id="d-1") for one in limits),
    )  # fmt: skip


def throttle(after: int) -> DecisionRecorded:
    action = Action(
        pod_uid="a", pod_name="a", tier="batch", cpu_limit_before_milli=None, cpu_limit_after_milli=after,
        released_milli=0,
    )  # fmt: skip
    record = release_record().model_copy(update={"id": "d-1", "kind": DecisionKind.THROTTLE, "actions": (action,)})
    return DecisionRecorded(record=record)


class Commits:
    """Commits of ensurance by hand, on a world with one machine that has the pod `a`."""

    def __init__(self) -> None:
        self.pods = {"a"}
        station = SimpleNamespace(node="node-00", machine=SimpleNamespace(pods=self.pods))
        self.world: Any = SimpleNamespace(stations={"agent-00": station})
        self.invariant = ChangesAreRecorded(self.world)

    def answer(self, *limits: ObservedLimit) -> None:
        observed = IntentObserved(
            node="node-00", writer="ensurance", generation=1, boot_epoch="b", received_at=NOW, observed_at=NOW,
            limits=limits,
        )  # fmt: skip
        message = SimpleNamespace(body=observed.body().encode())
        subject = f"sw.v1.{IntentObserved.TYPE}.1.node-00.ensurance"
        self.invariant.on_step(Step(1, 0.0, "agent-00", Kind.STORED, subject, value=message))

    def commit(self, *payloads: Any) -> None:
        rows = ((0, str(number), type_of(one), "s", "{}", one.body()) for number, one in enumerate(payloads))
        written = {("outbox", number): (None, values) for number, values in enumerate(rows)}
        commit = SimpleNamespace(written=written)
        self.invariant.on_step(Step(1, 0.0, "ensurance-0", Kind.COMMITTED, "ensurance", value=commit))


def test_a_limit_or_a_restore_without_its_record_is_found() -> None:
    commits = Commits()
    commits.commit(document(200), throttle(200))
    commits.commit(document(200, generation=2))  # nothing new: the lease of a new owner
    with pytest.raises(Violation, match="no record of its commit restores it"):
        commits.commit(document(generation=3))
    with pytest.raises(Violation, match="has cpu 201 for a by d-1"):
        commits.commit(document(201, generation=4), throttle(200))


def test_the_limit_of_a_pod_that_has_ended_goes_without_a_record() -> None:
    commits = Commits()
    commits.commit(document(200), throttle(200))
    commits.pods.clear()
    commits.commit(document(generation=2))


def ready(made: Any) -> Any:
    made.pod("a")
    for place in made.world.places.values():
        place.task = SimpleNamespace(cancelling=lambda: 0)
    return made


@pytest.fixture
def site() -> Any:
    from test_invariants_of_machines import Site

    return ready(Site())


def wanting(writer: str, limit: int, decision: str = "d", lease_seconds: float = 60.0) -> DesiredState:
    return DesiredState(writer, 1, 0.0, lease_seconds, Policy.BY_TIER, (Throttle("a", limit, decision),))


def test_a_limit_that_is_not_the_lowest_of_the_documents_is_found(site: Any) -> None:
    site.watch(MachinesFollowDecisions)
    site.states = (wanting("ensurance", 200), wanting("other", 300))
    site.limit("a")  # to 200 milli-cores
    site.states = (wanting("ensurance", 100), wanting("other", 300))
    with pytest.raises(Violation, match="want 10000 to 10000"):
        site.limit("a")
    path, kernel = site.limit_file("a"), site.station.machine.kernel
    right, plain = ("10000 100000", "max 100000") if path.endswith("cpu.max") else ("10000", "-1")
    kernel.write_as(AGENT, path, right)
    with pytest.raises(Violation, match=f"set to '{plain}'"):
        kernel.write_as(AGENT, path, plain)


def test_what_an_agent_decides_alone_needs_a_record_unless_its_process_has_ended(site: Any) -> None:
    invariant = site.watch(MachinesFollowDecisions)
    site.states = (wanting("agent", 200, "d-1", float("inf")),)
    site.limit("a")
    with pytest.raises(Violation, match="did cpu to a by its decision d-1"):
        invariant.at_rest()
    site.stored(throttle(200))
    invariant.at_rest()
    site.states = (wanting("agent", 200, "d-2", float("inf")),)
    site.limit("a")
    account = RecordAccount(waiting=(summary_of(throttle(200).record.model_copy(update={"id": "d-2"})),))
    disconnected = SimpleNamespace(_records=SimpleNamespace(account=account))
    site.station.service._running = SimpleNamespace(disconnected=disconnected)
    invariant.at_rest()  # the next record will list it
    del site.station.service._running
    with pytest.raises(Violation, match="did cpu to a by its decision d-2"):
        invariant.at_rest()
    site.step(Kind.STARTED, "agent-00/2")
    invariant.at_rest()


def test_a_level_of_memory_may_be_raised_for_what_a_pod_cannot_drop_and_no_higher() -> None:
    from test_invariants_of_machines import Site

    site = ready(next(made for made in (Site(seed=seed) for seed in range(20)) if made.station.machine.kernel.pure_v2))
    site.watch(MachinesFollowDecisions)
    memory = (MemoryLevel("a", 32 << 20, "d"),)
    site.states = (replace(wanting("ensurance", 200), throttles=(), memory_throttles=memory),)
    kernel = site.station.machine.kernel
    path = next(path for path in kernel.writable() if path.endswith("a/memory.high"))
    kernel.group_at(path).anonymous = 100 << 20
    kernel.write_as(AGENT, path, str(112 << 20))
    with pytest.raises(Violation, match=r"memory\.high was set to"):
        kernel.write_as(AGENT, path, str(128 << 20))


def test_a_difference_shows_the_parts_that_differ_and_clips_them() -> None:
    said = {"same": list(range(99)), "inputs": [{"value": 5.0}, {"value": "x" * 500}], "more": 1}
    again = {"same": list(range(99)), "inputs": [{"value": 0.0}, {"value": "x" * 499 + "y"}], "less": 2}
    text = difference(said, again)
    assert text.startswith("inputs[0].value: 5.0 instead of 0.0; inputs[1].value: …x")
    assert text.endswith("; more: 1 instead of nothing; …")
    assert len(text) < 400
    assert difference((1, 2), (1,)) == "(1, 2) instead of (1,)"


def test_a_limit_that_could_not_be_set_goes_without_a_record_and_one_that_could_not_be_read_does_not() -> None:
    for error, is_found in ((READ_REFUSED, True), ("write_refused", False)):
        commits = Commits()
        commits.commit(document(200), throttle(200))
        commits.answer(ObservedLimit(pod_uid="a", cpu_limit_milli=None, error=error))
        with pytest.raises(Violation) if is_found else nullcontext():
            commits.commit(document(generation=2))
