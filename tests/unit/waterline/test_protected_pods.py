"""Protected pods, by their own labels and classes, as ensurance and a disconnected agent see them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waterline_crowd import view
from waterline_rules import EXACT, UNBOUND, at, policies, rule

from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier, default_qos
from slackwater.waterline.cycle import Cycle, CycleState, run_cycle
from slackwater.waterline.facts import eviction_marks as marks
from slackwater.waterline.facts.eviction_marks import SYSTEM_CRITICAL
from slackwater.waterline.loop.applied_limits import pod_view
from slackwater.waterline.registry.best_effort import BEST_EFFORT
from slackwater.waterline.registry.metric import Metric

CPU = "node_cpu_usage"


def managed(uid: str = "a", tier: Tier = Tier.BATCH, **fields: Any) -> Pod:
    plain = Pod(
        uid, uid, "default", uid, tier, default_qos(tier), DEFAULT_PRIORITY[tier], Resources(1000, 1 << 30),
        datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    return replace(plain, **fields)


def asked(*pods: Pod, leaving: str = "", action: str = "evict", metric: str = CPU) -> Cycle:
    """A cycle on a node where every pod would have to be evicted."""
    uses = [pod_view(pod, 500, 1 << 20, None, None, pod.uid == leaving) for pod in pods]
    node = view(*uses, node_cpu_usage=9000, node_memory_usage=1 << 33)
    options = replace(EXACT, limits=UNBOUND)
    return run_cycle(node, policies(rule(metric, 1, action)), CycleState(), at(0), options=options)


def why(done: Cycle) -> str:
    assert done.plan.steps == ()
    return next(one.because for one in done.plan.spared if one.uid == "a")


@pytest.mark.parametrize("action", ["evict", "throttle"])
@pytest.mark.parametrize(
    ("pod", "because"),
    [
        (managed(labels={marks.PROTECTED[0]: marks.AGENT}), "it is the agent itself"),
        (managed(labels={marks.PROTECTED[0]: marks.STATIC}), "it is a static pod"),
        (managed(labels={"kubernetes.io/config.source": "file"}), "it is a static pod"),
        (managed(labels={marks.PROTECTED[0]: marks.SYSTEM}), "it belongs to the system"),
        (managed(namespace="kube-system"), "it belongs to the system"),
        (managed(priority=SYSTEM_CRITICAL), "it belongs to the system"),
        (managed(qos=QoSClass.SYSTEM), "it belongs to the system"),
        (managed(tier=Tier.PROD), "tier prod is protected"),
        (managed(tier=Tier.MID), "tier mid is protected"),
        (managed(qos=QoSClass.LSE), "QoS class LSE is protected unless it is named"),
        (managed(qos=QoSClass.LSR), "QoS class LSR is protected unless it is named"),
    ],
)
def test_it_is_neither_throttled_nor_evicted_whatever_a_policy_says(pod: Pod, because: str, action: str) -> None:
    assert why(asked(pod, action=action)) == because
    assert asked(managed(), action=action).plan.steps, "any other pod is"


def test_a_pod_under_eviction_is_not_chosen() -> None:
    assert why(asked(managed(), leaving="a")) == "it is already on its way out"
    assert asked(managed(labels={"kubernetes.io/config.source": "api"})).plan.steps


@pytest.mark.parametrize(
    ("labels", "because"),
    [
        ({"slackwater.io/eviction-enabled": "false"}, "it does not let itself be evicted"),
        ({"koordinator.sh/eviction-policy": '["BEMemoryEvict"]'}, f"its eviction policy does not name {CPU}"),
        ({"slackwater.io/eviction-policy": "none"}, f"its eviction policy does not name {CPU}"),
        ({"slackwater.io/eviction-policy": "{"}, f"its eviction policy does not name {CPU}"),
    ],
)
def test_a_pod_may_refuse_evictions_but_no_throttle(labels: dict[str, str], because: str) -> None:
    pod = managed(labels=labels)
    assert why(asked(pod)) == because
    assert asked(pod, action="throttle").plan.steps


@pytest.mark.parametrize("policy", [CPU, f'["node_memory_usage", "{CPU}"]'])
def test_a_pod_that_names_the_metric_may_be_evicted_for_it_and_for_no_other(policy: str) -> None:
    pod = managed(labels={"slackwater.io/eviction-policy": policy})
    assert [step.uid for step in asked(pod).plan.steps] == ["a"]
    other = asked(managed(labels={"slackwater.io/eviction-policy": CPU}), metric="node_memory_usage")
    assert why(other) == "its eviction policy does not name node_memory_usage"


def test_the_next_pod_is_chosen_instead_of_one_that_refuses() -> None:
    crowd = managed(labels={"slackwater.io/eviction-enabled": "false"}), managed("b")
    assert [step.uid for step in asked(*crowd).plan.steps] == ["b"]


@pytest.mark.parametrize("metric", BEST_EFFORT, ids=lambda metric: metric.name)
def test_the_peers_name_of_a_metric_is_understood(metric: Metric) -> None:
    (name,) = [*sorted(metric.also_called)][:1]
    pod = pod_view(managed(labels={"koordinator.sh/eviction-policy": f'["{name}"]'}), 1, 1, None, None)
    assert metric.refused_by(pod) is None
    assert Decimal(metric.action_priority) >= 0


anybody = st.builds(
    managed,
    st.uuids().map(str),
    tier=st.sampled_from(list(Tier)),
    qos=st.sampled_from(list(QoSClass)),
    namespace=st.sampled_from(["default", "kube-system"]),
    priority=st.sampled_from([0, 5500, SYSTEM_CRITICAL]),
    labels=st.sampled_from([{}, *({marks.PROTECTED[0]: one} for one in (marks.AGENT, marks.STATIC, marks.SYSTEM))]),
)


def is_protected(pod: Pod, leaving: str) -> bool:
    """Said once more, in other words."""
    return (
        bool(pod.labels)
        or pod.namespace != "default"
        or pod.priority == SYSTEM_CRITICAL
        or pod.uid == leaving
        or pod.tier in (Tier.PROD, Tier.MID)
        or pod.qos in (QoSClass.LSE, QoSClass.LSR, QoSClass.SYSTEM)
    )


@given(st.lists(anybody, max_size=6, unique_by=lambda pod: pod.uid), st.sampled_from(["evict", "throttle"]), st.data())
def test_exactly_the_unprotected_pods_are_chosen_when_all_are_needed(
    crowd: list[Pod], action: str, data: st.DataObject
) -> None:
    leaving = data.draw(st.sampled_from(["", *(pod.uid for pod in crowd)]))
    done = asked(*crowd, leaving=leaving, action=action)
    assert {step.uid for step in done.plan.steps} == {pod.uid for pod in crowd if not is_protected(pod, leaving)}
    assert len(done.plan.steps) + len({one.uid for one in done.plan.spared}) == len(crowd)


@given(st.dictionaries(st.sampled_from([*marks.POLICIES, *marks.ENABLED, *marks.PRIORITY, "x"]), st.text(max_size=5)))
def test_whatever_labels_say_a_pod_can_be_read(labels: dict[str, str]) -> None:
    pod_view(managed(labels=labels), None, None, None, None)
