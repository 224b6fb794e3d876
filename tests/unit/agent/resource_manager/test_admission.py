"""Admission of pods: all or none, release after a refusal, what is kept, and the error policy of each level."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mock_plugins import MockPlugins, manager, pod

from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import (
    NOT_ALIGNED,
    NOT_ALLOCATED,
    ManagerRules,
    drive,
)
from slackwater.agent.domain.resource_manager.messages import (
    NO_OPTIONS,
    RECONCILED,
    Allocation,
    QosLevel,
    Rpc,
)
from slackwater.agent.domain.resource_manager.pods import SKIP_ADMISSION
from slackwater.kernels.topology.hints import Hint
from slackwater.kernels.topology.merge import MergePolicy

_EITHER = (Hint(1, preferred=True), Hint(2, preferred=True))
_SECOND = (Hint(2, preferred=True),)


def test_every_container_in_order_gets_the_merged_hint() -> None:
    plugins, node = MockPlugins(hints={"cpu": _EITHER, "memory": _SECOND}), manager("cpu", "memory")
    admission = drive(node.admit(pod(init=["init"], sidecars=["side"])), plugins.answer)
    assert admission.is_admitted
    assert list(admission.allocated) == ["init", "main", "side"]
    requests = [call.request for call in plugins.calls if call.rpc is Rpc.ALLOCATE]
    assert [(request.container, request.type.name, request.index) for request in requests[::2]] == [
        ("init", "INIT", 0),
        ("main", "MAIN", 0),
        ("side", "SIDECAR", 1),
    ]
    assert {request.hint for request in requests} == {Hint(2, preferred=True)}


@pytest.mark.parametrize("level", [QosLevel.DEDICATED, QosLevel.RECLAIMED])
def test_a_refused_pod_leaves_nothing_behind(level: QosLevel) -> None:
    """The proposal leaks what was allocated before the refusal."""
    plugins = MockPlugins(refuses=lambda call: call.rpc is Rpc.ALLOCATE and call.resource == "memory")
    node = manager("cpu", "memory")
    admission = drive(node.admit(pod(level=level)), plugins.answer)
    assert (admission.is_admitted, admission.reason) == (False, NOT_ALLOCATED)
    assert admission.message == "main: memory is not allocated: refused"
    assert plugins.asked(Rpc.ALLOCATE) == ["cpu", "memory"]
    assert plugins.is_empty
    assert node.entries == {}


def test_a_later_container_that_is_refused_releases_the_earlier_ones() -> None:
    plugins = MockPlugins(refuses=lambda call: call.rpc is Rpc.ALLOCATE and call.request.container == "side")
    node = manager("cpu")
    assert not drive(node.admit(pod(level=QosLevel.DEDICATED, sidecars=["side"])), plugins.answer).is_admitted
    assert plugins.is_empty


def test_a_release_that_fails_is_tried_again_by_reconciliation() -> None:
    failing = {Rpc.REMOVE}
    plugins = MockPlugins(
        refuses=lambda call: call.rpc in failing or (call.rpc is Rpc.ALLOCATE and call.resource == "memory")
    )
    node = manager("cpu", "memory")
    drive(node.admit(pod(level=QosLevel.DEDICATED)), plugins.answer)
    assert node.unreleased == {"pod"}
    assert not plugins.is_empty
    failing.clear()
    assert drive(node.reconcile([]), plugins.answer).released == {"pod"}
    assert plugins.is_empty
    assert node.unreleased == set()


@pytest.mark.parametrize("level", [None, QosLevel.SHARED, QosLevel.SYSTEM])
def test_a_tolerated_failure_is_said(level: QosLevel | None) -> None:
    plugins, node = MockPlugins(refuses=lambda call: call.rpc is Rpc.ALLOCATE), manager("cpu")
    admission = drive(node.admit(pod(level=level)), plugins.answer)
    assert admission.is_admitted
    assert "starts without it" in admission.without["main", "cpu"]


def test_a_stopped_plugin_is_a_failure() -> None:
    node = manager("cpu")
    node.endpoints = {"cpu": PluginEndpoint("cpu", RECONCILED, stopped_at=1.0)}
    admission = drive(node.admit(pod(level=QosLevel.DEDICATED)), MockPlugins().answer)
    assert "endpoint cpu has been stopped" in admission.message


@pytest.mark.parametrize(
    ("policy", "reason"),
    [(MergePolicy.BEST_EFFORT, ""), (MergePolicy.RESTRICTED, NOT_ALIGNED), (MergePolicy.SINGLE_NUMA_NODE, NOT_ALIGNED)],
)
def test_hints_that_fail_are_impossible_and_not_no_preference(policy: MergePolicy, reason: str) -> None:
    plugins = MockPlugins(refuses=lambda call: call.rpc is Rpc.HINTS)
    node = manager("cpu", rules=ManagerRules((0, 1), policy))
    assert drive(node.admit(pod()), plugins.answer).reason == reason


def test_numeric_policy_aligns_by_resource() -> None:
    plugins = MockPlugins(hints={"cpu": _SECOND, "memory": (Hint(1, preferred=True),)})
    node = manager("cpu", "memory", rules=ManagerRules((0, 1), MergePolicy.NUMERIC))
    assert drive(node.admit(pod()), plugins.answer).reason == NOT_ALIGNED


def test_what_still_holds_is_kept_and_more_is_allocated_again() -> None:
    plugins, node = MockPlugins(), manager("cpu")
    for amount, allocated in ((2.0, 2.0), (3.0, 3.0), (1.0, 3.0)):
        drive(node.admit(pod(requests={"cpu": amount})), plugins.answer)
        assert node.entries["pod", "main"]["cpu"].quantity == allocated
    assert len(plugins.asked(Rpc.ALLOCATE)) == 2


def test_a_running_pod_that_is_refused_again_keeps_what_it_has() -> None:
    plugins, node = MockPlugins(), manager("cpu")
    drive(node.admit(pod(requests={"cpu": 1.0}, level=QosLevel.DEDICATED)), plugins.answer)
    plugins.refuses = lambda call: call.rpc is Rpc.ALLOCATE
    again = drive(node.admit(pod(requests={"cpu": 2.0}, level=QosLevel.DEDICATED)), plugins.answer)
    assert not again.is_admitted
    assert node.entries["pod", "main"]["cpu"].quantity == 1.0
    assert not plugins.is_empty


def test_hints_of_a_restart_are_those_that_were_allocated() -> None:
    plugins, node = MockPlugins(hints={"cpu": _SECOND}), manager("cpu")
    drive(node.admit(pod(requests={"cpu": 2.0})), plugins.answer)
    plugins.hints = {"cpu": ()}
    hints = drive(node.hints(pod(), pod(requests={"cpu": 2.0}).containers[0]), plugins.answer)
    assert hints == {"cpu": [Hint(2, preferred=True)]}
    assert plugins.asked(Rpc.HINTS) == ["cpu"]


def test_accompanying_resources_are_entries_too() -> None:
    plugins = MockPlugins(extra={"quota": Allocation("CpuQuota", 1.0, "100000")})
    node = manager("cpu")
    drive(node.admit(pod()), plugins.answer)
    assert node.entries["pod", "main"].keys() == {"cpu", "quota"}


def test_pods_that_are_not_the_managers() -> None:
    plugins, node = MockPlugins(), manager("cpu", rules=ManagerRules(skip_annotations=frozenset({"mine"})))
    marked = replace(pod(), annotations={SKIP_ADMISSION: "true"})
    for skipped in (replace(pod(), owner_kind="DaemonSet"), marked, replace(pod(), annotations={"mine": ""})):
        assert drive(node.admit(skipped), plugins.answer).is_skipped
    assert plugins.calls == []
    system = replace(pod(level=QosLevel.SYSTEM), owner_kind="DaemonSet")
    assert not drive(node.admit(system), plugins.answer).is_skipped
    drive(node.admit(pod()), plugins.answer)
    assert not drive(node.admit(marked), plugins.answer).is_skipped


def test_a_resource_without_a_plugin_is_ignored_and_one_without_alignment_has_no_hints() -> None:
    plugins, node = MockPlugins(hints={"cpu": ()}), manager()
    node.endpoints = {"cpu": PluginEndpoint("cpu", NO_OPTIONS)}
    admission = drive(node.admit(pod()), plugins.answer)
    assert admission.is_admitted
    assert plugins.asked(Rpc.HINTS) == []
    assert node.entries["pod", "main"].keys() == {"cpu"}


def test_pod_scope_merges_once_for_the_sum_of_the_containers() -> None:
    plugins = MockPlugins(hints={"cpu": _EITHER})
    node = manager("cpu", rules=ManagerRules((0, 1), pod_scope=True))
    drive(node.admit(pod(requests={"cpu": 2.0}, sidecars=["a", "b"], init=["init"])), plugins.answer)
    (asked,) = [call.request for call in plugins.calls if call.rpc is Rpc.POD_HINTS]
    assert (asked.amount, asked.container) == (6.0, "")
    hints = {call.request.hint for call in plugins.calls if call.rpc is Rpc.ALLOCATE}
    assert hints == {Hint(1, preferred=True)}
