"""A cycle of a profile: plugins of all points, protections, rest and loops."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from drawn_cluster import cluster, node, pod

from slackwater.descheduling.builtin import DefaultEvictor
from slackwater.descheduling.cycle import CycleLimits, run_cycle
from slackwater.descheduling.evictability import EVICT, EvictorSettings, ProtectionReason, protection
from slackwater.descheduling.move_history import RestRules, StayReason, stay_reason, with_moves
from slackwater.descheduling.placement import ClusterPlacement, EvictionGate, EvictionProposal
from slackwater.podmigration.limits import SkipGate

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"terminating": True}, ProtectionReason.TERMINATING),
        ({"mirror": True}, ProtectionReason.MIRROR),
        ({"static": True}, ProtectionReason.STATIC),
        ({"owner_kinds": ("DaemonSet",)}, ProtectionReason.DAEMON_SET),
        ({"annotations": {"scheduling.koordinator.sh/eviction-cost": "2147483647"}}, ProtectionReason.EVICTION_COST),
        ({"annotations": {"slackwater.io/eviction-cost": "2147483647"}}, ProtectionReason.EVICTION_COST),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, ProtectionReason.DO_NOT_DISRUPT),
        (
            {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
            ProtectionReason.NOT_SAFE_TO_EVICT,
        ),
    ],
)
def test_no_setting_and_no_mark_lifts_these(fields: dict[str, object], reason: ProtectionReason) -> None:
    lifted = EvictorSettings(True, True, True, True, skip_gates=frozenset(SkipGate))
    marks = {**dict.fromkeys(EVICT, "true"), **fields.pop("annotations", {})}  # type: ignore[dict-item]
    assert protection(pod("p", annotations=marks, **fields), lifted) is reason


@pytest.mark.parametrize(
    ("fields", "settings", "reason"),
    [
        ({"owner_kinds": ()}, {}, ProtectionReason.BARE_POD),
        ({"owner_kinds": (), "phase": "Failed"}, {"evict_failed_bare_pods": True}, None),
        ({"priority": 2_000_000_000}, {}, ProtectionReason.SYSTEM_CRITICAL),
        ({"priority": 500}, {"priority_threshold": 500}, ProtectionReason.PRIORITY_THRESHOLD),
        ({"priority": 499}, {"priority_threshold": 500}, None),
        ({"priority": 500}, {"priority_threshold": 500, "evict_system_critical": True}, None),
        ({"local_storage": True}, {}, ProtectionReason.LOCAL_STORAGE),
        (
            {"local_storage": True, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}},
            {},
            None,
        ),
        ({"pvc": True}, {"ignore_pvc": True}, ProtectionReason.PVC),
        ({}, {"label_selector": {"a": "b"}}, ProtectionReason.LABEL_SELECTOR),
        ({}, {"exclude_namespaces": frozenset({"ns"})}, ProtectionReason.NAMESPACE),
        ({}, {"include_namespaces": frozenset({"other"})}, ProtectionReason.NAMESPACE),
        ({"owner_kinds": ()}, {"skip_gates": frozenset({SkipGate.BARE_PODS})}, None),
        ({"owner_kinds": (), "annotations": {EVICT[0]: "true"}}, {}, None),
    ],
)
def test_settings_lift_protections(
    fields: dict[str, object], settings: dict[str, object], reason: ProtectionReason | None
) -> None:
    assert protection(pod("p", **fields), EvictorSettings(**settings)) is reason  # type: ignore[arg-type]


class AllPods:
    """Deschedule: proposes every pod that the gate allows."""

    def deschedule(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> list[EvictionProposal]:
        found = []
        for each in (each for pods in cluster.pods.values() for each in pods):
            if gate.allows(each):
                gate.record(each)
                found.append(EvictionProposal(each, "", "AllPods", "test"))
        return found


class NotOnSundays:
    """PreEvictionFilter."""

    def pre_eviction_filter(self, proposal: EvictionProposal, cluster: ClusterPlacement, now_s: float) -> str | None:
        return "sunday" if proposal.pod.name.endswith("7") else None


class ByName:
    """Sort."""

    def sort(self, proposals: Sequence[EvictionProposal]) -> Sequence[EvictionProposal]:
        return sorted(proposals, key=lambda proposal: proposal.pod.name, reverse=True)


def test_every_point_has_its_say() -> None:
    pods = [pod("p1"), pod("p7"), pod("p3", "n1"), pod("p4", terminating=True)]
    plugins = [AllPods(), AllPods(), ByName(), NotOnSundays(), DefaultEvictor(EvictorSettings())]
    plan = run_cycle(cluster([node("n0"), node("n1")], pods), plugins, 0.0)
    assert [proposal.pod.name for proposal in plan.proposals] == ["p3", "p1"]
    assert plan.dropped == {"p7": "sunday"}
    assert plan.refusals == {"terminating": 2, "proposed": 3}
    assert plan.moves == {"w-p3": [0.0], "w-p1": [0.0]}, "a dropped pod was not moved"


class FirstTwo:
    """Evict."""

    def evict(self, proposals: Sequence[EvictionProposal], now_s: float) -> set[str]:
        return {proposal.pod.uid for proposal in proposals[:2]}


def test_what_the_last_word_leaves_out_is_not_moved() -> None:
    pods = [pod(f"p{number}") for number in range(4)]
    plan = run_cycle(cluster([node("n0"), node("n1")], pods), [FirstTwo(), AllPods(), ByName()], 0.0)
    assert [proposal.pod.name for proposal in plan.proposals] == ["p3", "p2"], "after Sort, in its order"
    assert plan.dropped == {"p1": "not_submitted", "p0": "not_submitted"}
    assert plan.moves == {"w-p3": [0.0], "w-p2": [0.0]}


def test_refusals_state_the_limit() -> None:
    pods = [pod(f"p{number}") for number in range(3)]
    plan = run_cycle(cluster([node("n0")], pods), [AllPods()], 0.0, limits=CycleLimits(per_node=1))
    assert len(plan.proposals) == 1
    assert plan.refusals == {"per_node": 2}


def test_replicas_move_one_after_the_other_and_each_three_times_a_day() -> None:
    rules = RestRules(rest_s=100.0)
    moves = with_moves({}, {"w": 1}, 0.0, rules)
    assert stay_reason(moves, "w", 50.0, rules) is StayReason.RESTING
    assert stay_reason(moves, "w", 50.0, rules, replicas=2) is None
    assert stay_reason(moves, "w", 50.0, rules, replicas=2, moving=1) is StayReason.RESTING
    assert stay_reason(moves, "w", 100.0, rules) is None
    for at_s in (200.0, 400.0):
        moves = with_moves(moves, {"w": 1}, at_s, rules)
    assert stay_reason(moves, "w", 600.0, rules) is StayReason.LOOPING
    assert stay_reason(moves, "w", 600.0, rules, replicas=2) is None
    assert stay_reason(moves, "w", DAY_S, rules) is None, "the first one is a day ago"
    assert with_moves(moves, {}, 400.0 + DAY_S, rules) == {}
