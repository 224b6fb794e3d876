"""What was found about claims is found again from the arguments of its record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.decisions.reasons import Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.fairshare.claims import (
    ClaimRun,
    ClaimState,
    QuotaClaim,
    ReclaimOrder,
    ReclaimReason,
    RunFinding,
    admit,
    end,
    order_reclaim,
    start,
)
from slackwater.model.tiers import Tier
from slackwater.quota.domain.claim_runs import (
    RunNotice,
    UnclaimedWorkload,
    finding_decision,
    observe_claims,
    unclaimed_decision,
)
from slackwater.quota.domain.running_pods import RosterOrder, RunningPod, RunningPods, claim_key
from slackwater.quota.usecases.claim_records import MOST_REPLAYED, finding_record

NOW_S = 100_000.0
WORKLOADS = ("job-0", "job-1")
NODES = ("n0", "n1")
TIMES = st.sampled_from((0.5, 30.0, 61.5, 200.0, 301.25, 900.0)).map(lambda ago: NOW_S - ago)


@st.composite
def claims(draw: st.DrawFn) -> list[QuotaClaim]:
    """Claims of two workloads, or of their own label, anywhere in their lives."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        amounts = {"cpu": draw(st.integers(1, 3))}
        workload = draw(st.sampled_from(("", *WORKLOADS)))
        claim = QuotaClaim(f"c{number}", "quota", Tier.PROD, amounts, NOW_S - 1000, workload=workload)
        stage, at_s = draw(st.integers(0, 4)), draw(TIMES)
        if stage >= 1:
            claim = admit(claim, amounts, NOW_S - 950)
        if stage >= 2 and draw(st.booleans()):
            claim = start(claim, at_s)
        if stage == 3:
            order = ReclaimOrder(ReclaimReason.LENDER_MIN, at_s, at_s + 30, "a", "a0")
            claim = order_reclaim(claim, order)
        if stage == 4:
            claim = end(claim, ClaimState.RELEASED, at_s)
        if draw(st.booleans()):
            finding = draw(st.sampled_from((None, *RunFinding)))
            run = ClaimRun(draw(st.integers(0, 2)), at_s, finding, None if finding is None else at_s)
            claim = replace(claim, run=run)
        found.append(claim)
    return found


@st.composite
def reports(draw: st.DrawFn) -> RunningPods:
    """Pods of these workloads and claims, or of none, on two nodes."""
    pods = RunningPods(NOW_S - 1000)
    keys = (*WORKLOADS, "stranger", claim_key("c0"))
    for node in NODES:
        running = []
        for number in range(draw(st.integers(1, 3))):
            key = draw(st.sampled_from(keys))
            amounts, is_system = {"cpu": draw(st.integers(0, 4))}, draw(st.integers(0, 3)) == 3
            running.append(RunningPod(f"{node}-{number}", "pod", node, key, key, amounts, is_system, draw(TIMES)))
        pods.replace(node, RosterOrder("boot", 1), NOW_S - 1, ())
        pods.nodes[node].pods = {pod.uid: pod for pod in running}
        pods.last_seen_s |= {pod.key: NOW_S - 1 for pod in running}
    for key in draw(st.sets(st.sampled_from(keys))):
        pods.last_seen_s.setdefault(key, draw(TIMES))
    return pods


def records(live: list[QuotaClaim], pods: RunningPods, now_s: float) -> Iterator[DecisionRecord]:
    """What the service records of these claims and reports; noted two seconds later."""
    ended = [claim for claim in live if claim.ended_s is not None]
    live = [claim for claim in live if claim.ended_s is None]
    observed = observe_claims(live, ended, pods, frozenset({"n0"}), now_s)
    noted_s = now_s + 2.0
    at = datetime.fromtimestamp(noted_s, UTC)
    known = {claim.id: claim for claim in live}
    for item in (*observed.notices, *observed.unclaimed):
        match item:
            case RunNotice():
                before = known[item.id]
                after = item.applied(before, noted_s)
                if after is not None:
                    decision = finding_decision(before, after, noted_s, has_ended=item.has_ended)
                    if decision is not None:
                        yield finding_record(decision, item.evidence, "", at, item.id, before)
            case UnclaimedWorkload():
                yield finding_record(unclaimed_decision(item, noted_s), item.evidence, "", at)


def replayed(record: DecisionRecord, **changed: Any) -> Any:
    """What the recorded function finds; `changed` are fields of the evidence, or `now_s`."""
    arguments = json.loads(record.model_dump_json())["replay"]["arguments"]
    arguments = {name: changed.get(name, value) for name, value in arguments.items()}
    arguments["evidence"] |= {name: value for name, value in changed.items() if name in arguments["evidence"]}
    module, _, name = record.replay.function.partition(":")
    return getattr(import_module(module), name)(**arguments)


def without_the_cause(record: DecisionRecord) -> dict[str, Any]:
    """The change of the evidence after which this is not found any more."""
    rules = record.replay.arguments["evidence"]["settings"]
    if record.reason is Reason.CLAIM_FOUND_ENDED:
        return {"last_seen_s": NOW_S}
    if record.reason is Reason.CLAIM_FOUND_NEVER_STARTED:
        return {"settings": {**rules, "start_timeout_s": 10_000.0}}
    if record.reason is Reason.CLAIM_FOUND_RECLAIM_WITHOUT_EFFECT:
        return {"observed_s": NOW_S - 901.0}
    return {"pods": []}


@settings(max_examples=60)
@given(claims(), reports())
def test_the_replay_of_a_record_gives_the_finding_and_other_arguments_another(
    live: list[QuotaClaim], pods: RunningPods
) -> None:
    for record in records(live, pods, NOW_S):
        said = {"reason": record.reason.value, "seconds": record.result}
        assert replayed(record) == said
        assert replayed(record, now_s=NOW_S + 12.0) == {**said, "seconds": record.result + 10}
        other = replayed(record, **without_the_cause(record))
        assert other is None or other["reason"] != record.reason.value, record


def test_records_of_more_than_fits_are_compact() -> None:
    pods = RunningPods(0.0)
    running = [RunningPod(f"p{n}", "pod", "n0", "job-0", "job-0", {"cpu": 1}, False, 0.0) for n in range(MOST_REPLAYED)]
    pods.replace("n0", RosterOrder("boot", 1), NOW_S, ())
    pods.nodes["n0"].pods = {pod.uid: pod for pod in running}
    (whole,) = records([], pods, NOW_S)
    assert (whole.compact, replayed(whole)["reason"]) == (False, "claim_found_never_claimed")
    pods.nodes["n0"].pods = {pod.uid: pod for pod in (*running, replace(running[0], uid="more"))}
    (compact,) = records([], pods, NOW_S)
    assert compact.compact
    assert compact.replay.arguments == {}
    assert compact.result == whole.result
