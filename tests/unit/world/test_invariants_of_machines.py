"""Each invariant of machines, decisions and offers fails on a planted violation, and holds without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.clock import FakeClock
from tests.support.postgres_twin.values import Json
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.agent.evictions import EvictionsAreCarriedOutOnce, EvictionsAreWithinAutonomy
from tests.world.invariants.agent.restore import EveryFileReadsAsBefore
from tests.world.invariants.colocation.offers import RELAYED_SECONDS, OffersFollowTheFormulas, OldOffersShrink
from tests.world.invariants.colocation.true_state import OffersAreOfTheTrueState
from tests.world.invariants.decisions.records import ActionsHaveRecords, RecordsCanBeRepeated
from tests.world.machine.fleet import FleetSizes
from tests.world.machine.kernel import AGENT
from tests.world.machine.load import Load
from tests.world.machine.station import FOLDER, Station
from tests.world.plan import Plan
from tests.world.processes import State
from tests.world.trace import Kind, Step

from slackwater.agent.adapters.durable import replace_file
from slackwater.agent.domain.desired_state import DesiredState, Throttle
from slackwater.agent.domain.weights import Policy
from slackwater.colocation.settings import ColocationSettings
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Replay, Term
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Payload, subject_of
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import CpuThrottle, Eviction, IntentDeclared
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier, default_qos
from slackwater.offers.mid import node_offers
from slackwater.offers.node import InputSource, NodeState, with_offer
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.offer import FUNCTION, replay_of, replay_of_all, settled
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import NodeSnapshot, PodInput
from slackwater.offers.snapshot_json import snapshot_from_json
from slackwater.offers.snapshots import snapshot_of
from slackwater.offers.strategy import Strategy

NAME = "agent-00"
MIB = 1 << 20


@dataclass
class Site:
    """A machine without a process, steps by hand, and an agent that is asked for what the test says."""

    clock: FakeClock = field(default_factory=FakeClock)
    states: tuple[DesiredState, ...] = ()
    mode: str = "evict"
    steps: list[Step] = field(default_factory=list)
    invariant: Invariant | None = None
    rows: list[tuple[str, ...]] = field(default_factory=list)
    seed: int = 1

    def __post_init__(self) -> None:
        self.station = Station(
            "node-00", self.clock.monotonic, self.clock, Random(self.seed), FleetSizes((1, 1), (0, 0))
        )
        self.station.service = SimpleNamespace(  # type: ignore[assignment]
            desired_states=lambda: self.states,
            sample_age_seconds=lambda: 0.0,
            settings=SimpleNamespace(sample_seconds=1.0),
        )
        process = SimpleNamespace(state=State.RUNNING)
        self.world: Any = SimpleNamespace(
            stations={NAME: self.station},
            places={NAME: SimpleNamespace(process=process)},
            postgres=SimpleNamespace(schemas={"ensurance": SimpleNamespace(tables={"guarded_nodes": self})}),
            plan=Plan(1, settings={"ensurance": {"mode": self.mode}}),
        )
        self.station.on_write = lambda station, write: self.step(Kind.KNOB_WRITTEN, write.path, (station, write))
        self.station.on_effect = self.signalled

    def signalled(self, station: Station, effect: Any) -> None:
        if effect.kind == "signal":
            self.step(Kind.POD_SIGNALLED, effect.pod.uid, (station, effect))

    def committed(self) -> list[tuple[str, ...]]:
        """The rows of ensurance's nodes."""
        return self.rows

    def watch(self, invariant: type[Invariant]) -> Invariant:
        self.invariant = invariant(self.world)
        return self.invariant

    def step(self, kind: Kind, subject: str, value: Any = None, **detail: Any) -> None:
        if self.invariant is not None and kind in self.invariant.KINDS:
            self.invariant.on_step(Step(1, self.clock.monotonic(), NAME, kind, subject, "", detail, value))

    def stored(self, payload: Payload) -> None:
        message = SimpleNamespace(body=payload.body().encode())
        self.step(Kind.STORED, subject_of(payload), message)

    def pod(self, uid: str, qos: QoSClass | None = None) -> Pod:
        tier = Tier.BATCH
        pod = Pod(
            uid, uid, "default", "job", tier, qos or default_qos(tier), 5500, Resources(500, 64 * MIB), self.clock.now()
        )
        self.station.machine.start(pod, Load(1, 100.0, anonymous_bytes=MIB, ignores_term=True))
        return pod

    def ledger(self, *records: dict[str, Any]) -> None:
        replace_file(FOLDER / "evictions.json", json.dumps(records).encode(), self.station.disk)

    def limit_file(self, uid: str) -> str:
        return next(
            path
            for path in self.station.machine.kernel.writable()
            if path.endswith((f"{uid}/cpu.max", f"{uid}/cpu.cfs_quota_us"))
        )

    def limit(self, uid: str, limit_milli: int = 200) -> None:
        path, quota = self.limit_file(uid), limit_milli * 100
        text = f"{quota} 100000" if path.endswith("cpu.max") else f"{quota}"
        self.station.machine.kernel.write_as(AGENT, path, text)

    def wanting(self, uid: str, received: float = 0.0, lease_seconds: float = 60.0) -> DesiredState:
        return DesiredState("ensurance", 1, received, lease_seconds, Policy.BY_TIER, (Throttle(uid, 200, "d"),))


@pytest.fixture
def site() -> Site:
    return Site()


# restore


def test_a_file_that_is_left_changed_is_found_at_the_stop_and_after_the_next_start(site: Site) -> None:
    site.pod("a")
    site.watch(EveryFileReadsAsBefore)
    site.step(Kind.STOPPED, NAME, why="stopped")
    site.limit("a")
    site.step(Kind.STOPPED, NAME, why="Unavailable: the bus is away")
    with pytest.raises(Violation, match="after the stop"):
        site.step(Kind.STOPPED, NAME, why="stopped")
    with pytest.raises(Violation, match="after the start"):
        site.step(Kind.RECOVERED, "node-00", site.station)


def test_what_another_program_wrote_is_not_to_be_put_back(site: Site) -> None:
    site.pod("a")
    site.watch(EveryFileReadsAsBefore)
    site.limit("a")
    path = site.limit_file("a")
    site.station.machine.write_foreign(path, "77777 100000" if path.endswith("cpu.max") else "77777")
    site.step(Kind.STOPPED, NAME, why="stopped")


# evictions


def requested(site: Site, uid: str) -> None:
    item = Eviction(
        id="d-1",
        pod_uid=uid,
        grace_seconds=5,
        deadline=site.clock.now() + timedelta(60),
        reason="test",
        decision_id="d",
    )
    intent = IntentDeclared(
        node="node-00",
        writer="ensurance",
        generation=1,
        declared_at=site.clock.now(),
        lease_seconds=60,
        evictions=(item,),
    )
    site.stored(intent)


def going(uid: str, **other: Any) -> dict[str, Any]:
    return {"id": "d-1", "pod_uid": uid, "writer": "ensurance", "outcome": None, "started_at": "t0", **other}


def test_an_eviction_by_the_book_holds(site: Site) -> None:
    site.pod("a")
    site.watch(EvictionsAreCarriedOutOnce)
    requested(site, "a")
    site.ledger(going("a"))
    site.station.machine.signal("a", 15)
    site.station.machine.signal("a", 9)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda site: site.ledger(), "for which the ledger has"),
        (lambda site: site.ledger(going("a", outcome="killed")), "for which the ledger has"),
        (lambda site: site.ledger(going("a", id="d-2")), "never declared"),
        (lambda site: (site.ledger(going("a")), ended(site, "killed")), "goes on after"),
    ],
)
def test_a_signal_without_a_living_eviction_is_found(site: Site, prepare: Callable[[Site], None], words: str) -> None:
    site.pod("a")
    site.watch(EvictionsAreCarriedOutOnce)
    requested(site, "a")
    prepare(site)
    with pytest.raises(Violation, match=words):
        site.station.machine.signal("a", 15)


def ended(site: Site, outcome: str) -> None:
    site.stored(
        EvictionCompleted(
            id="d-1", node="node-00", pod_uid="a", writer="ensurance", outcome=outcome,  # type: ignore[arg-type]
            completed_at=site.clock.now(), decision_id="d",
        )
    )  # fmt: skip


def test_an_eviction_that_begins_or_ends_twice_is_found(site: Site) -> None:
    site.pod("a")
    site.watch(EvictionsAreCarriedOutOnce)
    requested(site, "a")
    site.ledger(going("a"))
    site.station.machine.signal("a", 15)
    site.ledger(going("a", started_at="t1"))
    with pytest.raises(Violation, match="began at t0 and at t1"):
        site.station.machine.signal("a", 15)
    ended(site, "killed")
    ended(site, "killed")
    ended(site, "expired")
    site.clock = FakeClock(site.clock.now() + timedelta(seconds=1))
    with pytest.raises(Violation, match="ended as"):
        ended(site, "killed")


def test_a_signal_to_a_protected_pod_is_found(site: Site) -> None:
    site.pod("s", QoSClass.SYSTEM)
    site.watch(EvictionsAreCarriedOutOnce)
    with pytest.raises(Violation, match="protected"):
        site.station.machine.signal("s", 15)


def test_an_eviction_without_the_grant_is_found() -> None:
    site = Site(mode="throttle")
    site.pod("a")
    site.watch(EvictionsAreWithinAutonomy)
    with pytest.raises(Violation, match="granted so far"):
        site.station.machine.signal("a", 15)
    commit = SimpleNamespace(
        inserted=lambda table: [{"kind": "Autonomy", "document": Json({"spec": {"mode": "evict"}})}]
    )
    site.step(Kind.COMMITTED, "ensurance", commit)
    site.station.machine.signal("a", 15)


def test_more_evictions_than_a_node_may_begin_in_an_hour_are_found(site: Site) -> None:
    site.watch(EvictionsAreWithinAutonomy)
    for number in range(20):
        site.pod(f"a{number}")
        site.station.machine.signal(f"a{number}", 15)
    site.pod("b")
    with pytest.raises(Violation, match="21 evictions within an hour"):
        site.station.machine.signal("b", 15)


@pytest.mark.parametrize(
    ("spec", "writer", "words"),
    [
        ({"nodeEvictionsPerHour": 2}, "ensurance", "began 3 evictions within an hour; allowed: 2"),
        ({"nodeEvictionsPerHour": 2}, "agent", "began 3 evictions within an hour; allowed: 2"),
        ({"evictionsPerHour": 1, "nodeEvictionsPerCycle": 1}, "ensurance", "3 evictions in the pool"),
    ],
)
async def test_more_evictions_than_the_document_of_the_pool_grants_are_found(
    site: Site, spec: dict[str, int], writer: str, words: str
) -> None:
    site.watch(EvictionsAreWithinAutonomy)
    row = {"kind": "Autonomy", "document": Json({"spec": {"mode": "evict", **spec}})}
    site.step(Kind.COMMITTED, "ensurance", SimpleNamespace(inserted=lambda table: [row]))
    await site.clock.advance(10.0)
    site.ledger(*({"pod_uid": f"a{number}", "writer": writer} for number in range(3)))
    for number in range(3):
        site.pod(f"a{number}")
        with pytest.raises(Violation, match=words) if number == 2 else nullcontext():
            site.station.machine.signal(f"a{number}", 15)


# records and offers


SNAPSHOT = NodeSnapshot(
    capacity=Resources(4000, 8 << 30),
    reserved=Resources(),
    pods=(),
    system=Resources(100, MIB),
    system_is_current=True,
    age_seconds=1.0,
    lost=False,
)


def offer_record(site: Site, result: int | None = None, **changed: Any) -> DecisionRecord:
    """The record of an offer of batch CPU; `result` instead of what the formula gives."""
    shared = replay_of_all(SNAPSHOT, Strategy(), 60)
    shared["snapshot"].update(changed)
    arguments = {**shared, **replay_of("batch", "cpu", PublishGate())}
    snapshot = snapshot_from_json(arguments["snapshot"])
    computed = node_offers("cpu", snapshot, Strategy()).batch
    decided = settled(computed, snapshot, Strategy(), PublishGate(), 60)
    amount = decided.value if result is None else result
    terms = decided.terms if result is None else (Term(name="capacity", value=amount),)
    return DecisionRecord(
        id="o-1", kind=DecisionKind.OFFER, node="node-00", subject="batch-cpu", service="colocation", rule="",
        reason=Reason.OFFER_DEGRADED, decided_at=site.clock.now(), trigger_event_id=None, inputs=(),
        terms=terms, result=amount, unit="milli",
        replay=Replay(function=FUNCTION, arguments=arguments),
    )  # fmt: skip


def test_a_record_that_does_not_repeat_is_found(site: Site) -> None:
    site.watch(RecordsCanBeRepeated)
    site.stored(DecisionRecorded(record=offer_record(site)))
    with pytest.raises(Violation, match="repeats with another result"):
        site.stored(DecisionRecorded(record=offer_record(site, 17)))


def test_a_limit_whose_decision_is_not_recorded_is_found_at_rest(site: Site) -> None:
    invariant = site.watch(ActionsHaveRecords)
    throttle = CpuThrottle(pod_uid="a", cpu_limit_milli=100, decision_id="o-1")
    now = site.clock.now()
    intent = IntentDeclared(
        node="node-00", writer="ensurance", generation=1, declared_at=now, lease_seconds=60, throttles=(throttle,)
    )
    site.stored(intent)
    with pytest.raises(Violation, match="o-1 about a on node-00 has no record"):
        invariant.at_rest()
    site.rows = [("node-00", '{"waiting": [{"id": "o-1"}]}')]
    invariant.at_rest()
    site.rows = []
    site.stored(DecisionRecorded(record=offer_record(site)))
    invariant.at_rest()


def test_an_offer_above_the_formula_or_beside_its_record_is_found(site: Site) -> None:
    invariant = site.watch(OffersFollowTheFormulas)
    record = offer_record(site)
    site.stored(DecisionRecorded(record=record))

    def offer(amount: int) -> ResourcesOffered:
        return ResourcesOffered(
            node="node-00", offered_at=site.clock.now(), generation=1, batch=Resources(amount, 0), degraded=None,
            decision_ids={"batch-cpu": "o-1"},
        )  # fmt: skip

    site.stored(offer(max(1, record.result)))
    site.world.loop = SimpleNamespace(time=lambda: site.station.time() + 2 * RELAYED_SECONDS)
    invariant.at_rest()
    site.stored(offer(record.result + 1))
    with pytest.raises(Violation, match="its record says"):
        invariant.at_rest()
    site.world.loop.time = site.station.time
    invariant.at_rest()  # its record may be on the way
    with pytest.raises(Violation, match="is allowed"):
        site.stored(DecisionRecorded(record=offer_record(site, 5000)))


def test_an_offer_that_grows_while_its_inputs_age_is_found(site: Site) -> None:
    site.watch(OldOffersShrink)
    for age, result in ((200.0, 900), (300.0, 900), (400.0, 700)):
        site.stored(DecisionRecorded(record=offer_record(site, result, age_seconds=age)))
    with pytest.raises(Violation, match="grew from 700 to 701"):
        site.stored(DecisionRecorded(record=offer_record(site, 701, age_seconds=500.0)))
    with pytest.raises(Violation, match="lost and offers"):
        site.stored(DecisionRecorded(record=offer_record(site, 1, lost=True)))
    for lost, result in ((True, 0), (False, 600)):  # the node is back
        site.stored(DecisionRecorded(record=offer_record(site, result, age_seconds=600.0, lost=lost)))
    with pytest.raises(Violation, match="grew from 600 to 601"):
        site.stored(DecisionRecorded(record=offer_record(site, 601, age_seconds=600.0)))


def test_an_offer_that_is_not_of_the_machine_as_it_is_is_found(site: Site) -> None:
    invariant = site.watch(OffersAreOfTheTrueState)
    site.world.clock_of = lambda _: site.clock
    hardware, now = site.station.machine.hardware, site.clock.now()
    capacity = Resources(hardware.cpus * 1000, hardware.memory_bytes)
    pods = tuple(
        PodInput(one.pod.uid, "prod", "LS", one.pod.request, Resources(100, MIB))
        for one in site.station.machine.running()
        if one.pod.tier is Tier.PROD
    )
    state = NodeState(
        "node-00", capacity, described_by=InputSource("e", now), pods=pods, system=Resources(50, MIB),
        system_is_current=True, window_end=int(now.timestamp()), used_by=InputSource("e", now),
    )  # fmt: skip
    settings = ColocationSettings()
    snapshot = snapshot_of(state, settings.strategy(), now)
    assert snapshot is not None
    offer = decide_node(snapshot, settings.strategy(), Gates(), state.window_end)
    right = with_offer(state, offer, None, 0)
    assert isinstance(invariant, OffersAreOfTheTrueState)
    invariant.check(site.station, right)
    for wrong, words in (
        (replace(right, cpu=PublishGate(offer.batch.cpu.value * 2 + 500)), "the formula gives"),
        (replace(right, pods=()), "colocation knows"),
        (replace(right, capacity=capacity + capacity), "colocation knows"),
    ):
        with pytest.raises(Violation, match=words):
            invariant.check(site.station, wrong)
    low = replace(right, cpu=PublishGate(offer.batch.cpu.value // 2))
    gone = replace(right, pods=(*pods, PodInput("gone", "prod", "LS", Resources(), Resources())))
    counting = PublishGate(low.cpu.published, 1, offer.batch.cpu.value, right.window_end)
    late = replace(low, cpu=replace(counting, last_window=right.window_end - 60))
    for wrong, words in ((low, "the formula gives"), (gone, "knows"), (late, "the formula gives")):
        with pytest.raises(Violation, match=words):
            invariant.check(site.station, wrong)
    invariant.check(site.station, replace(low, cpu=counting))
