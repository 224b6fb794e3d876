"""Rules that can act on no pod, however far their waterline is crossed, are reported by name and reason."""

from __future__ import annotations

from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.rulebook import Documents, rulebook_of, rules_without_effect


def in_vain(metric: str, value: object, action: str | None = None) -> dict[str, str]:
    """Of one rule, where AvoidanceActions evict and close are there, and the PodQOS that always is."""
    one = {"name": "r", "metricRule": {"name": metric, "value": value}} | (
        {} if action is None else {"actionName": action}
    )
    cluster = NodeQos.parse({"metadata": {"name": "default"}, "spec": {"rules": [one]}})
    specs = {"evict": {"eviction": {}}, "close": {}}
    actions = tuple(AvoidanceAction.parse({"metadata": {"name": name}, "spec": spec}) for name, spec in specs.items())
    return dict(rules_without_effect(rulebook_of(cluster, Documents(actions=actions)).policies, BUILT_IN))


def test_a_rule_that_can_act_is_not_reported() -> None:
    assert in_vain("node_cpu_usage_ratio", 0.8) == {}
    assert in_vain("node_memory_usage_ratio", 0.8) == {}, "memory is throttled"
    assert in_vain("node_cpu_usage_ratio", 0.8, "close") == {}, "it is only to close the node"


def test_a_rule_that_acts_on_no_pod_is_reported_with_the_reason() -> None:
    assert in_vain("node_cpu_usage_ratio", 0.8, "evcit") == {
        "default.r": "there is no AvoidanceAction evcit; apply it, or name another"
    }
    assert in_vain("node_memory_pressure", 0.8) == {
        "default.r": "the action throttle can do nothing about node_memory_pressure"
    }
    assert in_vain("node_memory_usage_ratio", 0.8, "evict") == {"default.r": "no PodQOS allows the action evict"}
