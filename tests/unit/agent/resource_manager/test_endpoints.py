"""Registration of plugins, their end, and the resources of the node that they make."""

from __future__ import annotations

import pytest

from slackwater.agent.domain.resource_manager.endpoints import (
    GRACE_SECONDS,
    Endpoints,
    Registration,
    expected,
    node_resources,
    register,
    stop,
    without_ended,
)
from slackwater.agent.domain.resource_manager.messages import AllocatableResource
from slackwater.model.errors import Conflict, InvalidInput

_GPU = "example.com/gpu"
_ONE = Registration("v1alpha1", "gpu.sock", _GPU)
_NONE: Endpoints = {}


@pytest.mark.parametrize(
    ("registration", "field"),
    [
        (Registration("v1beta1", "gpu.sock", _GPU), "version"),
        (Registration("v1alpha1", "gpu.sock", ""), "resource_name"),
        (Registration("v1alpha1", "gpu.sock", "a b"), "resource_name"),
        (Registration("v1alpha1", "../gpu.sock", _GPU), "endpoint"),
        (Registration("v1alpha1", "a/b.sock", _GPU), "endpoint"),
    ],
)
def test_version_and_names_are_checked(registration: Registration, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        register(_NONE, registration)
    assert error.value.field == field


def test_a_second_registration_needs_the_first_to_be_gone() -> None:
    first = register(_NONE, _ONE)
    second = Registration("v1alpha1", "other.sock", _GPU)
    with pytest.raises(Conflict, match=r"has a plugin that runs, at gpu\.sock"):
        register(first, second)
    assert register(stop(first, _GPU, 5.0), second)[_GPU].socket == "other.sock"


def test_a_resource_stays_for_the_grace_and_is_then_removed() -> None:
    running = register(_NONE, _ONE)
    report = {_GPU: {_GPU: AllocatableResource(3, 4), "cpu": AllocatableResource(1, 1, is_node=False)}}
    assert node_resources(running, report, 0.0).capacity == {_GPU: "4.000"}
    assert node_resources(running, report, 0.0).allocatable == {_GPU: "3.000"}
    ended = stop(running, _GPU, 10.0)
    within = node_resources(ended, report, 10.0 + GRACE_SECONDS - 1)
    assert (within.allocatable, within.removed) == ({_GPU: "0.000"}, ())
    after = node_resources(ended, report, 10.0 + GRACE_SECONDS)
    assert (after.allocatable, after.removed) == ({}, (_GPU,))
    assert without_ended(ended, 10.0 + GRACE_SECONDS) == {}


def test_resources_of_a_checkpoint_wait_for_their_plugin() -> None:
    places = expected(register(_NONE, _ONE), ["cpu", _GPU], 0.0)
    assert [places[name].runs for name in ("cpu", _GPU)] == [False, True]
    assert register(places, Registration("v1alpha1", "cpu.sock", "cpu"))["cpu"].runs
