"""The invariants of quota fail on a planted violation, and hold without it; plans with quotas are drawn apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.world import swarm
from tests.world.changes import Confirmed
from tests.world.claimers import LOOK, RELEASE, SUBMIT, Answer, Ask
from tests.world.invariants import Invariant, Violation, invariants_of
from tests.world.invariants.quota.at_rest import QuotasAreSettledAtRest
from tests.world.invariants.quota.claim_commits import ClaimChange, ClaimCommit
from tests.world.invariants.quota.claims import ClaimsAreFoundOnce, QuotasInUseStay
from tests.world.invariants.quota.node_bounds import NodeEvents
from tests.world.invariants.quota.plans import (
    PlansFollowTheLedger,
    QueueOrderIsKept,
    ReclaimsTakeWhatIsNeeded,
    UsesAreWithinLimits,
)
from tests.world.invariants.quota.pools import PlansKnowThePools
from tests.world.plan import QUOTA, Plan, PlannedChange
from tests.world.quota_habits import MOVES, SHARES
from tests.world.settling import has_settled
from tests.world.swarm import draw
from tests.world.trace import Kind, Step

from slackwater.cluster.fold import ClusterFold
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import ReclaimRequested, WantedReclaim
from slackwater.fairshare.arbitration_plan import QuotaSnapshot
from slackwater.fairshare.claims import (
    ClaimState,
    QuotaClaim,
    ReclaimOrder,
    ReclaimReason,
    admit,
    end,
    order_reclaim,
    start,
)
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import Quota
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.quota.domain.ledger_records import KeptClaim
from slackwater.quota.domain.pool_totals import totals_of
from slackwater.quota.ports import CLAIMS

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
TEAM = Quota("team", minimum={"cpu": 2}, maximum={"cpu": 6})


def queued(name: str, cpu: int = 2, at: float = 0.0, **more: Any) -> QuotaClaim:
    return QuotaClaim(name, "team", Tier.PROD, {"cpu": cpu}, at, **more)


def admitted(claim: QuotaClaim) -> QuotaClaim:
    return admit(claim, claim.request, 5.0)


class Ledger:
    """Commits of one tree by hand, for one invariant."""

    def __init__(self, invariant: type[Invariant]) -> None:
        world: Any = SimpleNamespace(plan=Plan(1, claimers=1))
        self.invariant = invariant(world)
        self.claims: dict[str, QuotaClaim] = {}
        self.generation = 0

    def step(self, kind: Kind, subject: str, value: Any = None) -> None:
        self.invariant.on_step(Step(1, 0.0, "", kind, subject, value=value))

    def commit(
        self,
        *claims: QuotaClaim,
        reasons: Mapping[str, str] | None = None,
        quotas: tuple[Quota, ...] = (TEAM,),
        total: int = 10,
        seen: Mapping[str, QuotaClaim] | None = None,
        uses: Mapping[str, tuple[int, int]] | None = None,
        skips: int = 1,
        strict: bool = False,
        needed: int = 2,
    ) -> None:
        """Commit these claims. `seen` is what the plan was made on, `uses` the use and the ceiling of a quota."""
        commit = ClaimCommit(generations={"": (self.generation, self.generation + skips)})
        for claim in claims:
            old = self.claims.get(claim.id)
            before = None if old is None else KeptClaim("", old)
            commit.claims[claim.id] = ClaimChange(before, KeptClaim("", claim))
            commit.tables[claim.id] = {CLAIMS}
            if old is None or old.state is not claim.state:
                commit.announced.append({"claim": claim.id, "state": claim.state.value})
        for name, (used, ceiling) in (uses or {}).items():
            commit.uses[name] = {"cpu": used}, {"cpu": ceiling}
        for name, reason in (reasons or {}).items():
            terms = [{"value": needed, "note": "cpu by wanted"}]
            commit.bodies.append({"record": {"subject": name, "reason": reason, "terms": terms}})
        policies = {"team": QueuePolicy.STRICT_FIFO} if strict else {}
        live = list((self.claims if seen is None else seen).values())
        commit.__dict__["snapshot"] = QuotaSnapshot(quotas, {"": {"cpu": total}}, live, queue_policies=policies)
        self.generation += 1
        self.claims.update({claim.id: claim for claim in claims})
        self.invariant.on_step(Step(1, 0.0, "", Kind.COMMITTED, QUOTA, decoded=[commit]))


def test_a_plan_on_other_claims_than_the_committed_ones_is_found() -> None:
    ledger = Ledger(PlansFollowTheLedger)
    ledger.commit(queued("a"))
    ledger.commit(admitted(queued("a")), reasons={"a": "claim_admitted_borrowed"})
    with pytest.raises(Violation, match=r"was made with a as \('queued'"):
        ledger.commit(queued("b"), seen={"a": queued("a")})


def test_a_generation_that_is_left_out_is_found() -> None:
    ledger = Ledger(PlansFollowTheLedger)
    ledger.commit(queued("a"))
    with pytest.raises(Violation, match=r"in generation 1; its commit has \(1, 3\)"):
        ledger.commit(queued("b"), skips=2)


def test_an_admission_without_a_record_is_found() -> None:
    ledger = Ledger(PlansFollowTheLedger)
    ledger.commit(admitted(queued("a")), reasons={"a": "claim_admitted_within_min"})
    with pytest.raises(Violation, match="b becomes admitted; the records of its commit: none"):
        ledger.commit(admitted(queued("b")))


def test_more_than_the_pool_the_max_or_the_min_of_the_bound_is_found() -> None:
    reasons = {"b": "claim_admitted_borrowed"}
    for claim, total, words in (
        (queued("b", 3), 4, "5 cpu in use; the pool has 4"),
        (queued("b", 5), 10, "team uses 7 cpu; its max is 6"),
        (queued("b", 3, non_preemptible=True), 10, "its min is 2"),
    ):
        ledger = Ledger(UsesAreWithinLimits)
        ledger.commit(admitted(queued("a")), reasons={"a": "claim_admitted_borrowed"})
        with pytest.raises(Violation, match=words):
            ledger.commit(admitted(claim), reasons=reasons, total=total)


def test_a_use_that_is_not_the_sum_of_its_claims_is_found() -> None:
    ledger = Ledger(UsesAreWithinLimits)
    ledger.commit(admitted(queued("a")), uses={"team": (2, 6)})
    with pytest.raises(Violation, match=r"its claims hold \{'cpu': 4\}"):
        ledger.commit(admitted(queued("b")), uses={"team": (2, 6)})
    with pytest.raises(Violation, match="allowed"):
        ledger.commit(queued("c"), uses={"team": (7, 6)})


def test_a_claim_that_is_passed_is_found() -> None:
    ledger = Ledger(QueueOrderIsKept)
    ledger.commit(queued("large", 6, at=1.0), queued("first", at=2.0), queued("second", at=3.0))
    ledger.commit(admitted(queued("first", at=2.0)), reasons={"first": "claim_admitted_borrowed"})
    with pytest.raises(Violation, match="second of team is admitted before large"):
        ledger.commit(admitted(queued("second", at=3.0)), reasons={"second": "claim_admitted_borrowed"}, strict=True)
    ledger.commit(queued("third", at=4.0), queued("fourth", at=5.0))
    with pytest.raises(Violation, match="fourth of team is admitted before third"):
        ledger.commit(admitted(queued("fourth", at=5.0)), reasons={"fourth": "claim_admitted_borrowed"})


def reclaimed(claim: QuotaClaim) -> QuotaClaim:
    order = ReclaimOrder(ReclaimReason.LENDER_MIN, 6.0, 9.0, "other", "wanted")
    return order_reclaim(admitted(claim), order)


def test_a_victim_too_many_or_one_that_is_never_reclaimed_is_found() -> None:
    reasons = {"a": "claim_reclaimed_lender_min", "b": "claim_reclaimed_lender_min"}
    ledger = Ledger(ReclaimsTakeWhatIsNeeded)
    ledger.commit(reclaimed(queued("a")), reclaimed(queued("b")), reasons=reasons, needed=3)
    ledger = Ledger(ReclaimsTakeWhatIsNeeded)
    with pytest.raises(Violation, match="a is asked to end for wanted"):
        ledger.commit(reclaimed(queued("a")), reclaimed(queued("b")), reasons=reasons, needed=2)
    both = [reclaimed(replace(queued(name), request={"cpu": 2, "memory": 1})) for name in ("a", "b")]
    ledger = Ledger(ReclaimsTakeWhatIsNeeded)
    ledger.commit(queued("wanted"))
    with pytest.raises(Violation, match=r"the others give .*'memory': 1"):
        ledger.commit(*both, reasons=reasons, needed=2)
    ledger = Ledger(ReclaimsTakeWhatIsNeeded)
    ledger.commit(replace(queued("wanted"), request={"cpu": 2, "memory": 2}))
    ledger.commit(*both, reasons=reasons, needed=2)  # the other half of the memory may be needed too
    with pytest.raises(Violation, match="never reclaimed"):
        ledger.commit(reclaimed(queued("b", non_preemptible=True)), reasons={"b": "claim_reclaimed_lender_min"})


def asked(*claims: QuotaClaim) -> Ledger:
    ledger = Ledger(ClaimsAreFoundOnce)
    for claim in claims:
        ledger.step(Kind.ASKED, claim.id, Ask(SUBMIT, claim))
    return ledger


def test_a_phantom_and_a_claim_that_comes_back_are_found() -> None:
    with pytest.raises(Violation, match="no client has asked"):
        asked().commit(queued("a"))
    ledger = asked(queued("a"))
    ledger.commit(queued("a"))
    withdrawn = end(queued("a"), ClaimState.WITHDRAWN, 7.0)
    ledger.commit(withdrawn)
    with pytest.raises(Violation, match="has ended as withdrawn and is queued now"):
        ledger.commit(queued("a"))


def test_a_claim_that_changes_what_it_holds_is_found() -> None:
    ledger = asked(queued("a"))
    ledger.commit(admitted(queued("a")))
    with pytest.raises(Violation, match="it was admitted with"):
        ledger.commit(replace(admitted(queued("a")), admitted={"cpu": 1}))


def test_what_a_client_was_told_and_was_never_committed_is_found() -> None:
    ledger = asked(queued("a"))
    ledger.commit(queued("a"))
    ledger.step(Kind.ANSWERED, "a", Answer(LOOK, KeptClaim("", queued("a"))))
    with pytest.raises(Violation, match="was told that a is admitted"):
        ledger.step(Kind.ANSWERED, "a", Answer(LOOK, KeptClaim("", admitted(queued("a")))))
    with pytest.raises(Violation, match="the release of a was confirmed, and it is queued"):
        ledger.step(Kind.ANSWERED, "a", Answer(RELEASE, KeptClaim("", queued("a"))))


def test_a_quota_that_is_deleted_with_claims_is_found() -> None:
    def deleted(quota: str, asked_at: float, *, is_done: bool = True) -> Confirmed:
        return Confirmed(PlannedChange(0.0, "delete", "ElasticQuota", quota), is_done=is_done, asked_at=asked_at)

    ledger = Ledger(QuotasInUseStay)
    ledger.commit(queued("a"))
    ledger.step(Kind.DELETED, "ElasticQuota/other", deleted("other", 5.0))
    ledger.step(Kind.DELETED, "ElasticQuota/team", deleted("team", 5.0, is_done=False))
    ledger.step(Kind.DELETED, "ElasticQuota/team", deleted("team", 0.0))  # the claim came while it was deleted
    with pytest.raises(Violation, match="team is deleted; a is in it since 0"):
        ledger.step(Kind.DELETED, "ElasticQuota/team", deleted("team", 5.0))
    ledger.commit(end(queued("a"), ClaimState.WITHDRAWN, 7.0))
    ledger.step(Kind.DELETED, "ElasticQuota/team", deleted("team", 5.0))


def replica_with(cpu: int) -> Any:
    trees = SimpleNamespace(totals=lambda tree: SimpleNamespace(total={"cpu": cpu}))
    return SimpleNamespace(service=SimpleNamespace(trees=trees))


def test_a_replica_that_does_not_know_what_was_published_is_found_at_rest() -> None:
    plan = Plan(1, nodes=0, replicas=2, claimers=1, scripted_nodes=1, quiet_seconds=1000.0)
    places = {"quota-0": replica_with(0), "quota-1": replica_with(0)}
    world: Any = SimpleNamespace(plan=plan, places=places, wall_seconds=lambda: 1e9)
    known = totals_of(ClusterFold().view(datetime.fromtimestamp(1e9, UTC)), ())[""].total
    for place in places.values():
        place.service.trees.totals = lambda tree: SimpleNamespace(total=known)
    PlansKnowThePools(world).at_rest()
    places["quota-1"] = replica_with(4)
    with pytest.raises(Violation, match="quota-1 takes the pools to have"):
        PlansKnowThePools(world).at_rest()


def test_a_claim_that_the_pool_refuses_to_evict_may_stay_at_rest() -> None:
    started = start(admitted(queued("a")), 6.0)
    world: Any = SimpleNamespace(
        plan=Plan(1, settings={QUOTA: {"reclaim_delay_seconds": 0.0}}, claimers=1),
        wall_seconds=lambda: 1e6,
        loop=SimpleNamespace(time=lambda: 100.0),
    )
    trees = SimpleNamespace(policies=lambda tree: {})

    def check(*, refused: str, at: float) -> None:
        invariant = QuotasAreSettledAtRest(world)
        wanted = [WantedReclaim(claim=refused, order=refused, evictions={"p": 1})]
        request = ReclaimRequested(id="r", tree="default", wanted=wanted, valid_seconds=30.0, requested_at=EPOCH)
        answer = ReclaimAnswered(
            id="r", tree="default", granted=[], because="used up", valid_until=EPOCH, answered_at=EPOCH
        )
        for payload in (request, answer):
            subject = f"sw.v1.{payload.TYPE}.1.default"
            invariant.on_step(Step(1, at, "", Kind.STORED, subject, decoded=[payload]))
        invariant._check_due("", trees, [TEAM], [started], {"cpu": 0})

    check(refused="a", at=90.0)
    for name, at in (("b", 90.0), ("a", 10.0)):  # of another claim, and too long ago
        with pytest.raises(Violation, match="a is due to be reclaimed: pool_shrunk"):
            check(refused=name, at=at)


def test_a_replica_may_not_know_pods_of_the_system_whose_rosters_the_broker_has_lost() -> None:
    rosters = SimpleNamespace(last_sequence=3)
    broker = SimpleNamespace(jetstreams={PodsRostered.STREAM: rosters})
    world: Any = SimpleNamespace(plan=Plan(1, claimers=1), broker=broker)
    invariant = PlansKnowThePools(world)
    invariant._system = {"n": {"batch-cpu": 100}, "other": {}}
    invariant._note_rosters_end(3)
    assert invariant._unknown(-50.0) == {}
    rosters.last_sequence = 0
    assert invariant._unknown(-40.0) == {"batch-cpu": 100}
    amounts, _ = invariant._unreported["n"]
    invariant._unreported["n"] = amounts, 30.0
    assert invariant._unknown(30.0) == {}
    assert invariant._unknown(29.0) == {"batch-cpu": 100}


def test_a_replica_that_is_behind_may_take_pods_of_the_system_for_running_still() -> None:
    world: Any = SimpleNamespace(plan=Plan(1, claimers=1))
    invariant = PlansKnowThePools(world)
    invariant._events.note(1.0, 1, "n", described(4))
    invariant._requested += [(10.0, {"cpu": 500}), (20.0, {"cpu": 3000}), (30.0, {"cpu": 200})]
    leasts = {since: invariant._bounds(since)[0]["cpu"] for since in (5.0, 15.0, 25.0, 35.0)}
    assert leasts == {5.0: 1000, 15.0: 1000, 25.0: 1000, 35.0: 3800}


def described(cores: int) -> NodeDescribed:
    topology = CpuTopology(cores, cores, 1, 1)
    facts = NodeFacts("n", "p", Resources(cores * 1000), Resources(), topology, "6.1", "v2", "fake", "0")
    return NodeDescribed(facts=facts, boot_epoch="boot", described_at=EPOCH)


def cpu_bounds(events: NodeEvents, since: float) -> tuple[int, int]:
    least, most = events.bounds(since)
    return least["cpu"], most["cpu"]


def test_a_reader_may_know_what_the_broker_has_lost_or_what_was_before() -> None:
    events = NodeEvents()
    for at, payload in ((1.0, described(4)), (2.0, described(6)), (3.0, described(8))):
        events.note(at, int(at), "n", payload)
        events.note_end(int(at))
    assert (cpu_bounds(events, 5.0), cpu_bounds(events, 2.5)) == ((8_000, 8_000), (6_000, 8_000))
    assert cpu_bounds(events, 0.5) == (0, 8_000), "in the window the node was unknown at first"
    events.note_end(1)
    assert events.has_lost
    assert cpu_bounds(events, 5.0) == (4_000, 8_000)
    closed = NodeSchedulingChanged(
        node="n",
        closed=True,
        reason="cordon",
        decision_id="d",
        rules=(),
        since=EPOCH,
        told_at=EPOCH,
        valid_until=EPOCH,
    )
    events.note(4.0, 2, "n", closed)
    assert cpu_bounds(events, 5.0) == (0, 8_000), "a wrong clock takes it for lapsed or not"


def test_habits_are_drawn_apart_and_survive_their_file() -> None:
    plans = [draw(seed, seconds=120.0, quotas=True) for seed in range(1, 41)]
    assert {habit for plan in plans for habit in plan.habits} == set(SHARES)
    assert any(not plan.habits for plan in plans)
    for plan in plans:
        assert Plan.from_json(plan.to_json()).habits == plan.habits
        assert draw(plan.seed, seconds=120.0).habits == ()
        assert sorted(plan.changes, key=lambda change: change.at) == list(plan.changes)
        if MOVES in plan.habits:
            assert not any("min" in change.spec and "max" in change.spec for change in plan.changes)


def test_quotas_leave_the_rest_of_a_seed_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [seed for seed in range(1, 101) if draw(seed).claimers]
    assert 0 < len(seeds) < 15
    drawn = {seed: draw(seed) for seed in seeds}
    monkeypatch.setattr(swarm, "with_quotas", lambda plan: plan)
    for seed, plan in drawn.items():
        plain = draw(seed)
        assert set(plain.faults) < set(plan.faults) or plain.faults == plan.faults
        assert {name for name in plan.settings if plan.settings[name] != plain.settings.get(name)} == {QUOTA}
        kept = {"claimers": 0, "faults": plain.faults, "changes": plain.changes, "settings": plain.settings}
        assert replace(plan, **kept, clock_offsets=plain.clock_offsets) == plain  # type: ignore[arg-type]


def test_a_world_of_quotas_alone_settles_and_is_judged_by_what_runs_in_it() -> None:
    for seed in range(1, 21):
        plan = draw(seed, seconds=120.0, quotas=True)
        assert has_settled(plan)
        assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()
        names = {invariant.NAME for invariant in invariants_of(plan)}
        assert "plans follow the ledger" in names
        assert "offers follow the formulas" not in names
