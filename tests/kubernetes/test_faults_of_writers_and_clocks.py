"""The service kubernetes beside another writer of its fields, and with a clock that differs."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.drivers import RealDriver, real_driver
from tests.kubernetes.test_api_server_port import pod
from tests.kubernetes.test_faults_of_the_api_server import FaultySite
from tests.kubernetes.test_service_on_api_server import CPU, GIB, MEMORY, PATIENCE_SECONDS, is_cordoned, until

from slackwater.events.eviction_completed import EvictionOutcome
from slackwater.kubernetes.service import KubernetesService
from slackwater.model.time import SystemClock


class SkewedClock(SystemClock):
    """The clock of a host that is `ahead` of all others."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


@pytest.fixture
async def site(real: RealDriver) -> FaultySite:
    return FaultySite(real, real.kubeconfig)


async def shown(service: KubernetesService, name: str, text: str) -> None:
    """Wait until a line of /readyz shows this; empty: nothing at all."""
    detail = ""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            (check,) = (check for check in await service.checks() if check.name == name)
            assert check.ok, "none of these is a reason to be unready"
            detail = check.detail
            if (text in detail) if text else not detail:
                return
            await asyncio.sleep(0.02)


async def test_another_field_manager_is_named_and_not_fought_and_what_falls_lands(site: FaultySite) -> None:
    """It takes a field over that Slackwater had applied, with another value."""
    node = await site.node("contested")
    async with site.running() as service:
        await site.offer(node, 4_000, 158 * GIB)
        await site.until_lent(node, {CPU: 4_000, MEMORY: 158 * GIB})
        await site.cluster.write_lent(node, "other-agent", {CPU: 1_000})
        await until(lambda: "other-agent" in service.status.refusals.get(node, ""))
        writes = len(site.ledger.versions[node])
        await site.offer(node, 5_000, 158 * GIB)
        await shown(service, "kubernetes-status", "other-agent")
        assert len(site.ledger.versions[node]) == writes, "not written again"
        await site.offer(node, 6_000, 58 * GIB)
        await site.until_lent(node, {CPU: 1_000, MEMORY: 58 * GIB})
    assert site.complaints() == []


@pytest.mark.parametrize("minutes", [-10, 10])
async def test_a_clock_that_differs_is_shown_and_no_eviction_has_two_outcomes(
    control_plane: ControlPlane, tmp_path: Path, minutes: int
) -> None:
    """Ensurance and the API server agree; the host of this service is ahead of them, or behind."""
    async with real_driver(control_plane.kubeconfig, tmp_path) as real:
        site = FaultySite(real, real.kubeconfig, SkewedClock(timedelta(minutes=minutes)))
        node, victim = await site.node("skewed"), await pod(real, "skewed")
        async with site.running() as service:
            side = "behind" if minutes > 0 else "ahead of"
            await site.offer(node, 4_000, GIB)
            await site.until_lent(node, {CPU: 4_000, MEMORY: GIB})
            await shown(service, "kubernetes-clock", f"s {side} this host's")
            await site.cordon(node)
            await site.want(victim)
            if minutes > 0:  # what was decided is over before it is read
                await until(lambda: site.outcomes() == [EvictionOutcome.EXPIRED])
                assert not is_cordoned(service, node)
            else:
                await until(lambda: is_cordoned(service, node))
                await until(lambda: service.inventory.pods[victim.key].deleting)
                await site.end(victim)
        assert len(site.ledger.evicted) == (0 if minutes > 0 else 1)
        assert site.complaints() == []
