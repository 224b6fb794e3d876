"""What is told once for pods alike, and sorted flat, is what would be told of each pod by itself."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from waterline_crowd import crowds, use

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.analysis.demands import OWNERS_OF_CPUS, Exposed, protection
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import CHAINS, ComparatorChain
from slackwater.waterline.policies.podqos import PodQosSpec

ACTIONS = ("throttle", "evict", "other")
TERMS = [
    {"scopeName": "QOSClass", "operator": "In", "values": ["BE", "LSR"]},
    {"scopeName": "QOSClass", "operator": "NotIn", "values": ["BE"]},
    {"scopeName": "Priority", "operator": "In", "values": ["5000-5999"]},
    {"scopeName": "Namespace", "operator": "In", "values": ["a"]},
    {"scopeName": "Namespace", "operator": "NotIn", "values": ["a"]},
]
scopes = st.none() | st.lists(st.sampled_from(TERMS), max_size=2).map(lambda terms: {"matchExpressions": terms})
labels = st.none() | st.sampled_from([{"matchLabels": {"app": "x"}}, {"matchLabels": {}}])
allowed = st.lists(st.sampled_from(ACTIONS), max_size=3, unique=True)
policies = st.lists(
    st.builds(
        lambda scope, label, actions: PodQosSpec.parse(
            {"scopeSelector": scope, "labelSelector": label, "allowedActions": actions}
        ),
        scopes,
        labels,
        allowed,
    ),
    max_size=4,
)
pods = st.lists(
    st.builds(
        lambda tier, qos, priority, namespace, app: use(
            "", tier=tier, qos=qos, priority=priority, namespace=namespace, labels={"app": app}
        ),
        st.sampled_from([Tier.BATCH, Tier.FREE, Tier.PROD]),
        st.sampled_from([QoSClass.BE, QoSClass.LS, QoSClass.LSR, QoSClass.LSE, None]),
        st.sampled_from([5000, 7000, None]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y"]),
    ),
    min_size=2,
    max_size=12,
)


def alone(pod: PodUse, given_policies: list[PodQosSpec]) -> set[str] | None:
    """The rule itself: policies add up, and a pod with exclusive CPUs is selected only by those that name its class.
    None: no policy selects it, or it is protected whatever they allow."""
    if protection(pod, OWNERS_OF_CPUS) is not None:
        return None
    owns = pod.qos in OWNERS_OF_CPUS
    meant = [one for one in given_policies if one.matches(pod) and (not owns or pod.qos in one.named_classes)]
    return {name for one in meant for name in one.allowed_actions} if meant else None


@given(pods, policies)
def test_each_pod_may_suffer_what_its_own_policies_allow(crowd: list[PodUse], given_policies: list[PodQosSpec]) -> None:
    there = [replace(one, uid=str(number)) for number, one in enumerate(crowd)]
    found = Exposed(there, given_policies).by_uid
    for pod in there:
        expected = alone(pod, given_policies)
        assert found[pod.uid].actions == (expected or set())
        assert bool(found[pod.uid].protected_because) == (expected is None)


@given(crowds, st.sampled_from(sorted(CHAINS)))
def test_flat_keys_sort_as_the_keys_of_each_pod(crowd: list[PodUse], name: str) -> None:
    chain: ComparatorChain = CHAINS[name]
    expected = sorted((chain.keys(pod), pod.uid) for pod in crowd)
    assert [(keys, pod.uid) for keys, pod in chain.ranked(crowd)] == expected
