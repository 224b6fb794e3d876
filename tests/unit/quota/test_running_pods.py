"""Which pods run, by the rosters of nodes and by whether the nodes live."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.support.clock import EPOCH, FakeClock

from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.rosters import roster_of
from slackwater.model.nodes import Liveness
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.quota.usecases.cluster_totals import ClusterTotals


def roster_with(number: int, at: datetime, *workloads: str, boot: str = "boot") -> PodsRostered:
    """The roster of node n0 with a pod of each workload."""
    pods = [
        Pod(name, name, "default", name, Tier.PROD, QoSClass.LS, 9000, Resources(1, 0), EPOCH) for name in workloads
    ]
    return PodsRostered(node="n0", boot_epoch=boot, sequence=number, rostered_at=at, slot=0, roster=roster_of(pods, ()))


async def test_rosters_are_ordered_by_their_number_and_not_by_a_clock_that_was_ahead() -> None:
    clock = FakeClock(EPOCH)
    totals = ClusterTotals(clock)

    async def report(number: int, ahead: timedelta, *workloads: str, boot: str = "boot") -> set[str]:
        rostered = roster_with(number, clock.now() + ahead, *workloads, boot=boot)
        await totals.receive(event_of(rostered, source="test", time=clock.now()))
        assert max(totals.pods.last_seen_s.values()) <= clock.now().timestamp()
        return {pod.name for pod in totals.pods.all()}

    none = timedelta()
    assert await report(2, timedelta(days=1), "old") == {"old"}
    await clock.advance(1.0)
    assert await report(1, none, "older") == {"old"}
    assert await report(3, none, "new") == {"new"}
    assert await report(1, none, "rebooted", boot="next") == {"rebooted"}


class Cluster:
    """What quota knows of node n0."""

    def __init__(self) -> None:
        self.clock = FakeClock(EPOCH)
        self.totals = ClusterTotals(self.clock)

    async def roster(self, number: int, *workloads: str) -> None:
        rostered = roster_with(number, self.clock.now(), *workloads)
        await self.totals.receive(event_of(rostered, source="test", time=self.clock.now()))

    async def lives(self, liveness: Liveness, last_report_s: float) -> None:
        changed = NodeLivenessChanged(
            node="n0", liveness=liveness, previous=None, changed_at=self.clock.now(),
            last_report_at=EPOCH + timedelta(seconds=last_report_s),
        )  # fmt: skip
        await self.totals.receive(event_of(changed, source="test", time=self.clock.now()))

    @property
    def running(self) -> set[str]:
        return {pod.name for pod in self.totals.pods.all()}

    def seen_s(self, workload: str) -> float:
        return self.totals.pods.last_seen_s[workload] - EPOCH.timestamp()


async def test_a_pod_that_a_roster_leaves_out_ran_until_then() -> None:
    """Rosters are rare: the last one with the pod may be old."""
    cluster = Cluster()
    await cluster.roster(1, "a", "b")
    await cluster.clock.advance(50.0)
    await cluster.roster(11, "b")
    assert cluster.running == {"b"}
    assert cluster.seen_s("a") == 50.0


async def test_what_a_lost_node_ran_ended_with_its_last_report_and_runs_again_when_it_lives() -> None:
    cluster = Cluster()
    await cluster.roster(1, "a")
    await cluster.clock.advance(100.0)
    await cluster.lives(Liveness.LOST, 40.0)
    assert (cluster.running, cluster.seen_s("a")) == (set(), 40.0)
    await cluster.clock.advance(1.0)
    await cluster.lives(Liveness.FRESH, 101.0)
    assert cluster.running == {"a"}, "its agent does not repeat at once what has not changed"


async def test_a_node_that_lives_again_runs_what_it_says_since() -> None:
    cluster = Cluster()
    await cluster.roster(1, "a")
    await cluster.clock.advance(100.0)
    await cluster.lives(Liveness.LOST, 40.0)
    await cluster.clock.advance(1.0)
    await cluster.roster(21, "b")
    await cluster.lives(Liveness.FRESH, 101.0)
    assert cluster.running == {"b"}


async def test_a_roster_that_is_read_after_the_end_of_its_node_runs_nothing() -> None:
    """A replica that starts reads that a node is lost before it reads its roster."""
    cluster = Cluster()
    await cluster.clock.advance(100.0)
    await cluster.lives(Liveness.LOST, 40.0)
    rostered = roster_with(1, EPOCH + timedelta(seconds=40), "a")
    await cluster.totals.receive(event_of(rostered, source="test", time=cluster.clock.now()))
    assert (cluster.running, cluster.seen_s("a")) == (set(), 40.0)
