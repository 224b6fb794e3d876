"""Reconciliation: pods that are gone, what plugins changed, what they do not know, and plugins that do not answer."""

from __future__ import annotations

from mock_plugins import MockPlugins, manager, pod

from slackwater.agent.domain.resource_manager.manager import drive
from slackwater.agent.domain.resource_manager.messages import Allocation, PluginCall, Rpc

_KEY = ("pod", "main")


def test_only_what_differs_is_changed() -> None:
    plugins, node = MockPlugins(), manager("cpu", "memory")
    drive(node.admit(pod()), plugins.answer)
    assert drive(node.reconcile([pod()]), plugins.answer).changed == frozenset()
    plugins.held["cpu"][_KEY] = {"cpu": Allocation("CpusetCpus", 4, "0-3")}
    assert drive(node.reconcile([pod()]), plugins.answer).changed == {_KEY}
    assert node.entries[_KEY]["cpu"].result == "0-3"


def test_what_a_plugin_does_not_know_is_allocated_again() -> None:
    plugins, node = MockPlugins(), manager("cpu")
    drive(node.admit(pod()), plugins.answer)
    plugins.held.clear()
    drive(node.reconcile([pod()]), plugins.answer)
    assert _KEY in plugins.held["cpu"]


def test_init_containers_are_left_alone() -> None:
    plugins, node = MockPlugins(), manager("cpu")
    spec = pod(init=["init"])
    drive(node.admit(spec), plugins.answer)
    del plugins.held["cpu"]["pod", "init"]
    drive(node.reconcile([spec]), plugins.answer)
    assert ("pod", "init") not in plugins.held["cpu"]


def test_a_plugin_that_does_not_answer_changes_nothing() -> None:
    plugins, node = MockPlugins(), manager("cpu", "memory")
    drive(node.admit(pod()), plugins.answer)
    before = {key: dict(allocated) for key, allocated in node.entries.items()}

    def is_cpu(call: PluginCall) -> bool:
        return call.resource == "cpu"

    plugins.refuses = is_cpu
    reconciled = drive(node.reconcile([pod()]), plugins.answer)
    assert (reconciled.failures, reconciled.changed) == ({"cpu": "refused"}, frozenset())
    assert node.entries == before


def test_a_pod_that_is_gone_is_released_once_every_plugin_did() -> None:
    plugins, node = MockPlugins(), manager("cpu", "memory")
    drive(node.admit(pod()), plugins.answer)
    plugins.refuses = lambda call: call.rpc is Rpc.REMOVE and call.resource == "memory"
    assert drive(node.reconcile([]), plugins.answer).released == frozenset()
    assert node.entries.keys() == {_KEY}
    plugins.refuses = lambda call: False
    assert drive(node.reconcile([]), plugins.answer).released == {"pod"}
    assert node.entries == {}
