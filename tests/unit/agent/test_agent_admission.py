"""What `slackwater exec` accepts, and that each refusal names its flag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.clock import EPOCH

from slackwater.agent.domain.admission import Command, admit, cfs_period_us, cpu_limit_milli, memory_limit_bytes
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

UID = "0199-abcdef12"
GOOD = Command(tier="batch", cpu="2", memory="1Gi", workload="etl", arguments=("true",))


def test_a_batch_command_becomes_a_best_effort_pod_with_a_hard_memory_limit() -> None:
    pod = admit(GOOD, UID, EPOCH)
    assert (pod.tier, pod.qos, pod.priority, pod.workload) == (Tier.BATCH, QoSClass.BE, 5500, "etl")
    assert pod.request == Resources(2000, 1 << 30)
    assert memory_limit_bytes(pod) == 1 << 30
    assert pod.name == "etl-abcdef12"


def test_labels_are_keys_and_values_and_the_last_of_a_key_counts() -> None:
    given = ("slackwater.io/revision=7", "team=", "slackwater.io/revision=8")
    assert admit(replace(GOOD, labels=given), UID, EPOCH).labels == {"slackwater.io/revision": "8", "team": ""}
    assert admit(GOOD, UID, EPOCH).labels == {}


def test_prod_is_not_limited_in_memory_and_shares_cpus() -> None:
    pod = admit(replace(GOOD, tier="prod"), UID, EPOCH)
    assert pod.qos is QoSClass.LS
    assert memory_limit_bytes(pod) is None


def test_without_a_limit_a_pod_may_use_what_there_is() -> None:
    assert cpu_limit_milli(GOOD) is None
    assert cpu_limit_milli(replace(GOOD, cpu_limit="0.25")) == 250


@pytest.mark.parametrize("limit", ["", "lots", "-1", "0", "9m"])
def test_a_limit_that_cannot_be_is_named(limit: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cpu_limit_milli(replace(GOOD, cpu_limit=limit))
    assert "--cpu-limit" in caught.value.message


@pytest.mark.parametrize(("given", "period_us"), [(100, 100_000), (1000, 10**6)])
def test_limits_are_counted_in_the_kernels_usual_period_or_in_a_longer_one(given: int, period_us: int) -> None:
    assert cfs_period_us(GOOD) == 100_000
    assert cfs_period_us(replace(GOOD, cpu_period_ms=given)) == period_us


@pytest.mark.parametrize("given", [-1, 0, 99, 1001])
def test_a_period_that_cannot_be_is_named(given: int) -> None:
    with pytest.raises(InvalidInput, match=f"--cpu-period-ms: {given} is not allowed: 100 to 1000"):
        cfs_period_us(replace(GOOD, cpu_period_ms=given))


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"tier": "gold"}, "--tier"),
        ({"cpu": "-1"}, "--cpu"),
        ({"cpu": "many"}, "--cpu"),
        ({"memory": "1Zi"}, "--memory"),
        ({"memory": "0"}, "--memory"),
        ({"memory": "512m"}, "--memory"),
        ({"qos": "LS"}, "--qos"),
        ({"qos": "be"}, "--qos"),
        ({"priority": 9500}, "--priority"),
        ({"workload": "../../etc"}, "--workload"),
        ({"name": "Ünicode"}, "--name"),
        ({"namespace": ""}, "--namespace"),
        ({"arguments": ()}, "CMD"),
        ({"labels": ("team",)}, "--label"),
        ({"labels": ("=x",)}, "--label"),
        ({"labels": ("slackwater.io/protected=agent",)}, "--label"),
        ({"labels": ("team=a b",)}, "--label"),
        ({"labels": ("team=" + "a" * 64,)}, "--label"),
    ],
)
def test_a_wrong_flag_is_named(change: dict[str, Any], flag: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        admit(replace(GOOD, **change), UID, EPOCH)
    assert caught.value.field == flag
    assert flag in caught.value.message
