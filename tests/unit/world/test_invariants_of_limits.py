"""Limits on machines are wanted, and none holds a pod that ends: planted violations are found."""

from __future__ import annotations

import pytest
from test_invariants_of_machines import Site
from tests.world.invariants import Violation
from tests.world.invariants.agent.limits import EndingPodsAreNotHeld, LimitsAreWanted


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_limit_that_no_document_wants_is_found_when_it_is_written(site: Site) -> None:
    site.pod("a")
    site.watch(LimitsAreWanted)
    with pytest.raises(Violation, match="no writer wants"):
        site.limit("a")


async def test_a_limit_that_outlives_its_lease_is_found(site: Site) -> None:
    site.pod("a")
    site.states = (site.wanting("a"),)
    invariant = site.watch(LimitsAreWanted)
    site.limit("a")
    await site.clock.advance(63)
    invariant.at_rest()  # it rises in steps
    await site.clock.advance(10)
    with pytest.raises(Violation, match="no writer wants"):
        invariant.at_rest()


@pytest.mark.parametrize(("less_milli", "is_held"), [(1, True), (0, False)])
async def test_a_pod_that_ends_and_is_held_below_its_part_of_a_fifth_is_found(
    site: Site, less_milli: int, is_held: bool
) -> None:
    """Two pods that end: a tenth of the CPU each. Right after the signal the agent may still write."""
    limit_milli = site.station.machine.hardware.cpus * 100 - less_milli
    invariant = site.watch(EndingPodsAreNotHeld)
    records = []
    for uid in "ab":
        site.pod(uid)
        site.limit(uid, limit_milli)
        records.append({"pod_uid": uid, "outcome": None, "started_at": site.clock.now().isoformat()})
    site.ledger(*records)
    await site.clock.advance(2)
    invariant.at_rest()
    await site.clock.advance(2)
    if not is_held:
        invariant.at_rest()
        return
    with pytest.raises(Violation, match="a ends since 4 s"):
        invariant.at_rest()
