"""Cordons as taints: written, renewed and removed with their lease; taints of others stay."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.support.api_server import MemoryApiServer
from tests.support.clock import EPOCH
from tests.unit.kubernetes.test_kubernetes_service import Cluster

from slackwater.apiserver.records import CORDON_TAINT, NODES, ClusterNode, Taint, parse_node
from slackwater.events.envelope import event_of
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.kubernetes.domain.cordon_plan import (
    CordonEffect,
    CordonNews,
    NodeCordonFacts,
    cordon_taint,
    lease_of,
    plan_cordons,
)
from slackwater.kubernetes.usecases.uninstall import withdraw_all

OTHER = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}
LATE = {"key": "example.com/late", "value": "true", "effect": "NoSchedule"}
SECONDS = st.integers(-300, 300)
EFFECTS = st.sampled_from(CordonEffect)


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


@given(until=st.none() | SECONDS, taint=st.none() | SECONDS, effect=EFFECTS, known=st.booleans())
def test_a_plan_that_is_carried_out_leaves_nothing_to_do_and_never_a_lease_that_has_ended(
    until: int | None, taint: int | None, effect: CordonEffect, known: bool
) -> None:
    present = None if taint is None else cordon_taint(at(taint), CordonEffect.NO_SCHEDULE)
    news = CordonNews(EPOCH, None if until is None else at(until)) if known else None
    plan = plan_cordons([NodeCordonFacts("n", present, news)], effect, EPOCH)
    after = plan.writes[0].taint if plan.writes else present
    again = plan_cordons([NodeCordonFacts("n", after, news)], effect, EPOCH)
    assert again.writes == ()
    if after is not None:
        lease = lease_of(after)
        assert lease is not None
        assert lease > EPOCH
        assert effect is not CordonEffect.OFF
        end = plan_cordons([NodeCordonFacts("n", after, news)], effect, lease)
        assert [write.taint for write in end.writes] == [None]
        assert plan.again_at == lease


def test_a_taint_without_a_lease_is_removed() -> None:
    by_hand = Taint(CORDON_TAINT, "for-ever", "NoSchedule")
    assert len(plan_cordons([NodeCordonFacts("n", by_hand, None)], CordonEffect.NO_SCHEDULE, EPOCH).writes) == 1


class CordonedCluster(Cluster):
    async def cordon(self, node: str, seconds: float | None) -> None:
        """Ensurance cordons a node for so long; None: it uncordons it."""
        now = self.scene.clock.now()
        change = NodeSchedulingChanged(
            node=node,
            closed=seconds is not None,
            reason="scheduling_closed",
            decision_id="d",
            rules=("p.r",),
            since=now,
            told_at=now,
            valid_until=None if seconds is None else now + timedelta(seconds=seconds),
        )
        await self.scene.bus.publish(event_of(change, source="ensurance", time=now))
        await self.scene.advance(1)

    def taint(self, node: str) -> Taint | None:
        return parse_node(self.server.document(NODES, node)).cordon

    def others(self, node: str) -> list[dict[str, str]]:
        taints = self.server.document(NODES, node)["spec"].get("taints", [])
        return [taint for taint in taints if taint["key"] != CORDON_TAINT]


def tainted() -> CordonedCluster:
    cluster = CordonedCluster()
    document = cluster.server.document(NODES, "n0")
    cluster.server.put(NODES, {**document, "spec": {"taints": [OTHER], "unschedulable": True}})
    return cluster


async def test_a_cordon_is_written_renewed_and_removed_beside_the_taints_of_others() -> None:
    cluster = tainted()
    async with cluster.running():
        await cluster.cordon("n0", 120)
        first = cluster.taint("n0")
        assert first is not None
        assert (lease_of(first), first.effect) == (at(1 + 120), "NoSchedule")
        await cluster.cordon("n0", 120)
        assert (cluster.taint("n0"), cluster.server.cordons) != (first, 1)
        await cluster.cordon("n0", None)
        assert cluster.taint("n0") is None
        assert cluster.server.cordons == 3
    assert cluster.others("n0") == [OTHER]
    assert cluster.server.document(NODES, "n0")["spec"]["unschedulable"]


async def test_a_cordon_that_is_not_renewed_is_removed_when_its_lease_ends() -> None:
    cluster = tainted()
    async with cluster.running():
        await cluster.cordon("n0", 30)
        await cluster.scene.advance(28)
        assert cluster.taint("n0") is not None
        await cluster.scene.advance(2)
        assert cluster.taint("n0") is None


async def test_a_lease_that_ended_while_the_service_was_away_is_removed_without_news() -> None:
    cluster = tainted()
    async with cluster.running():
        await cluster.cordon("n0", 30)
    await cluster.scene.advance(60)
    async with cluster.running():
        await cluster.scene.advance(1)
        assert cluster.taint("n0") is None


class ContendedServer(MemoryApiServer):
    """Another controller writes the list of taints just before Slackwater's first write arrives."""

    async def set_cordon(self, node: ClusterNode, cordon: Taint | None) -> ClusterNode:
        if not self.conflicts:
            self.conflicts = 1
            document = self.document(NODES, node.key)
            document["spec"]["taints"] = [OTHER, LATE]
            self.put(NODES, document)
        return await super().set_cordon(node, cordon)

    conflicts = 0


async def test_a_node_that_another_writes_at_the_same_time_is_read_and_written_again() -> None:
    cluster = CordonedCluster(server=ContendedServer())
    document = cluster.server.document(NODES, "n0")
    cluster.server.put(NODES, {**document, "spec": {"taints": [OTHER]}})
    async with cluster.running():
        await cluster.cordon("n0", 120)
        await cluster.scene.advance(1)
        assert cluster.taint("n0") is not None
    assert (cluster.others("n0"), cluster.server.cordons) == ([OTHER, LATE], 1)


async def test_off_and_uninstall_remove_the_taint() -> None:
    cluster = tainted()
    async with cluster.running():
        await cluster.cordon("n0", 3_000)
    assert (await withdraw_all(cluster.server, dry_run=True)).nodes == ("n0",)
    done = await withdraw_all(cluster.server, wait_seconds=0)
    assert (done.nodes, done.written_again, cluster.taint("n0")) == (("n0",), (), None)
    cluster = tainted()
    async with cluster.running():
        await cluster.cordon("n0", 3_000)
    cluster.settings = cluster.settings.model_copy(update={"cordons": CordonEffect.OFF})
    async with cluster.running():
        assert cluster.taint("n0") is None
    assert cluster.others("n0") == [OTHER]
