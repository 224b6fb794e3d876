"""Usage beyond the described machine is refused with its reason, and leads to no decision."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ensurance_scene import Scene, reported
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.errors import InvalidInput
from slackwater.model.plausibility import CAPACITY_FACTOR, implausible_usage, plausible_usage
from slackwater.model.quantities import Resources

ABOVE = 0.4
amounts = st.builds(Resources, st.integers(0, 10**8), st.integers(0, 2**52))


@given(used=amounts, capacity=st.none() | amounts)
def test_usage_is_plausible_up_to_the_stated_factor_and_never_beyond_any_machine(
    used: Resources, capacity: Resources | None
) -> None:
    most = plausible_usage(capacity)
    assert most.cpu_milli <= MOST_CPU_MILLI
    assert most.memory_bytes <= MOST_MEMORY_BYTES
    assert capacity is None or most.cpu_milli in (MOST_CPU_MILLI, int(capacity.cpu_milli * CAPACITY_FACTOR))
    fits = used.cpu_milli <= most.cpu_milli and used.memory_bytes <= most.memory_bytes
    assert (implausible_usage(used, capacity) is None) == fits


@pytest.mark.parametrize("pressure", [0.02, ABOVE])
async def test_usage_of_a_node_beyond_its_capacity_is_refused_and_nothing_is_declared(pressure: float) -> None:
    scene = await Scene().open("n1")
    before = len(scene.intents())
    report = reported(1, at=scene.clock.now(), pressure=pressure, prod=10**6)
    with pytest.raises(InvalidInput, match="times the described capacity") as refused:
        await scene.guard(report)
    assert refused.value.code == "implausible"
    assert len(scene.intents()) == before


async def test_one_pod_beyond_the_node_is_refused_where_it_would_be_decided_about() -> None:
    scene = await Scene().open("n1")
    report = reported(1, at=scene.clock.now(), pressure=ABOVE)
    pods = tuple(
        replace(pod, usage=replace(pod.usage, cpu_milli=replace(pod.usage.cpu_milli, max=10**6)))
        for pod in report.data.pods
    )
    with pytest.raises(InvalidInput, match="times the described capacity"):
        await scene.guard(report.model_copy(update={"data": report.data.model_copy(update={"pods": pods})}))
