"""What a plan takes a pool to have is what the pool has, or had a short time ago."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.invariants.quota.claim_commits import claim_commit_of
from tests.world.invariants.quota.node_bounds import STREAM, NodeEvents
from tests.world.plan import QUOTA, PlannedFault, replicas
from tests.world.settling import has_settled
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.cluster.fold import ClusterFold
from slackwater.events.envelope import Payload, event_of
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.quota_accounted import QuotaAccounted
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.fairshare.tree import Amounts, added
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.domain.pool_totals import totals_of
from slackwater.quota.domain.running_pods import RosterOrder, RunningPods, system_amounts

WATCHED: tuple[type[Payload], ...] = (
    NodeDescribed,
    NodeLivenessChanged,
    NodeSchedulingChanged,
    ResourcesOffered,
    NodeDeleted,
)
KNOWN_SECONDS = 60.0
"""A replica that was frozen, or cut off from the broker, decides so long on what it knew before."""


class PlansKnowThePools(Invariant):
    """The totals in a record and in the published ledger of a tree over all pools are between the least and the most
    that was published of them within KNOWN_SECONDS, less what pods of the system request: a replica that has just
    started does not take what it has not read yet for an empty pool. Ledgers are checked on scripted nodes, on which
    nothing of the system runs. Where events are lost, a clock was wrong or a fault kept a replica from reading, readers
    know different things of each node: then the sum is between those of the least and of the most of each. Once the
    broker has lost its rosters, a replica that starts does not know what pods of the system run on a node before its
    next one. At rest, where these stay as they are, each replica knows what was published."""

    NAME = "plans know the pools"
    KINDS: ClassVar = (Kind.STORED, Kind.COMMITTED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._fold = ClusterFold()
        self._events = NodeEvents()
        self._pods = RunningPods(0.0)
        self._system: dict[str, Amounts] = {}
        self._requested: list[tuple[float, Amounts]] = [(0.0, {})]
        """What all pods of the system request, from each change on."""
        self._rosters_end = 0
        self._unreported: dict[str, tuple[Amounts, float]] = {}
        """By node, what its pods of the system request whose rosters are lost, and when the next one came."""
        self._totals: list[tuple[float, Amounts]] = [(0.0, {})]
        self._has_profile = any(change.kind == "QuotaProfile" for change in world.plan.changes)

    def on_step(self, step: Step) -> None:
        if self._has_profile or not self.world.plan.claimers:
            return
        if step.kind is Kind.STORED:
            if step.detail["stream"] == STREAM:
                self._events.note_end(step.detail["sequence"] - 1)  # by every message: what is lost is stored over
            elif step.detail["stream"] == PodsRostered.STREAM:
                self._note_rosters_end(step.detail["sequence"] - 1)
                self._rosters_end += 1
            ledger = payload_of(step, QuotaAccounted)
            if ledger is None:
                self._fold_event(step)
            elif ledger.tree == tree_key("") and self.world.plan.scripted_nodes:
                self._check(step, ledger.total)
        elif (commit := claim_commit_of(step)) is not None and commit.snapshot is not None:
            self._check(step, commit.snapshot.totals.get("", {}))

    def _fold_event(self, step: Step) -> None:
        if (rostered := payload_of(step, PodsRostered)) is not None:
            if rostered.node in self._unreported:
                amounts, until = self._unreported[rostered.node]
                self._unreported[rostered.node] = amounts, min(until, step.at)
            order = RosterOrder(rostered.boot_epoch, rostered.sequence)
            self._pods.replace(rostered.node, order, rostered.rostered_at.timestamp(), rostered.roster.pods)
            system = system_amounts(self._pods.nodes[rostered.node].pods.values())
            if system != self._system.get(rostered.node, {}):
                self._system[rostered.node] = system
                self._requested.append((step.at, added(*self._system.values())))
                self._note(step.at)
            return
        for payload in WATCHED:
            found: Any = payload_of(step, payload)
            if found is None:
                continue
            sequence = step.detail["sequence"]
            name = found.facts.name if isinstance(found, NodeDescribed) else found.node
            self._events.note(step.at, sequence, name, found)
            self._events.note_end(sequence)
            if isinstance(found, NodeDeleted):
                self._fold.remove(found.node, found.deleted_at)
            else:
                self._fold.apply(event_of(found, source="world", time=datetime(2026, 1, 1, tzinfo=UTC)))
            self._note(step.at)

    def _note_rosters_end(self, sequence: int) -> None:
        """The stream of rosters ends with this number: a broker that has lost it begins again."""
        if sequence < self._rosters_end:
            self._unreported = {node: (amounts, math.inf) for node, amounts in self._system.items() if amounts}
        self._rosters_end = sequence

    def _note(self, at: float) -> None:
        now = datetime.fromtimestamp(self.world.wall_seconds(), UTC)
        self._totals.append((at, totals_of(self._fold.view(now), (), self._system)[""].total))

    def _check(self, step: Step, known: Mapping[str, int]) -> None:
        self._note(step.at)  # a cordon may have lapsed since the last event
        since = self._heard_since(step)
        later = [at for at, _ in self._totals if at > since]
        first = len(self._totals) - len(later)
        recent = [amounts for _, amounts in self._totals[max(0, first - 1) :]]
        low: Amounts = {key: min(each.get(key, 0) for each in recent) for key in known}
        unknown = self._unknown(since)
        high: Amounts = {key: max(each.get(key, 0) for each in recent) + unknown.get(key, 0) for key in known}
        if self._are_within(known, low, high):
            return
        if self._may_differ(step):
            low, high = self._bounds(since)
            if self._are_within(known, low, high):
                return
        key = next(key for key, amount in known.items() if not low.get(key, 0) <= amount <= high.get(key, 0))
        raise Violation(
            f"{step.process} takes the pools to have {known[key]} {key}; since {since:.0f} s they had "
            f"{low.get(key, 0)} to {high.get(key, 0)}"
        )

    def _heard_since(self, step: Step) -> float:
        """Since when the replica has heard of all changes: KNOWN_SECONDS ago, or before the faults one after the other
        that kept it from reading until then."""
        since = step.at - KNOWN_SECONDS
        for fault in sorted(self._reading_faults(step), key=lambda fault: fault.at + fault.seconds, reverse=True):
            if fault.at + fault.seconds >= since:
                since = min(since, fault.at)
        return since

    def _reading_faults(self, step: Step) -> list[PlannedFault]:
        """What kept the replica from reading, until now."""
        targets = {step.process, f"{step.process}>broker", "broker"}
        return [fault for fault in self.world.plan.faults if fault.target in targets and fault.at < step.at]

    def _unknown(self, since: float) -> Amounts:
        """What pods of the system request that a replica may not know of."""
        stream = self.world.broker.jetstreams.get(PodsRostered.STREAM)  # None: a broker that has it not back yet
        self._note_rosters_end(0 if stream is None else stream.last_sequence)
        return added(*(amounts for amounts, until in self._unreported.values() if until > since))

    @staticmethod
    def _are_within(known: Mapping[str, int], low: Mapping[str, int], high: Mapping[str, int]) -> bool:
        return all(low.get(key, 0) <= amount <= high.get(key, 0) for key, amount in known.items())

    def _may_differ(self, step: Step) -> bool:
        """Whether this replica may know of a node what was never published together: events were lost, its clock was
        wrong, or after a fault it has read on of one type and not yet of another."""
        self._events.note_end(self.world.broker.jetstreams[STREAM].last_sequence)
        faults = self.world.plan.faults
        is_behind = any(fault.at + fault.seconds > step.at - KNOWN_SECONDS for fault in self._reading_faults(step))
        return (
            self._events.has_lost
            or is_behind
            or any(
                fault.kind.startswith("clock ") and fault.target == step.process and fault.at <= step.at
                for fault in faults
            )
        )

    def _bounds(self, since: float) -> tuple[Amounts, Amounts]:
        """The least is less the most that pods of the system requested since then: which of them run, and which count
        on a node, readers know as little."""
        least, most = self._events.bounds(since)
        begun = max(at for at, _ in self._requested if at <= since)
        requested = [amounts for at, amounts in self._requested if at >= begun]
        return {key: max(0, own - max(each.get(key, 0) for each in requested)) for key, own in least.items()}, most

    def at_rest(self) -> None:
        plan = self.world.plan
        if self._has_profile or not plan.scripted_nodes or not has_settled(plan):
            return
        now = datetime.fromtimestamp(self.world.wall_seconds(), UTC)
        published = totals_of(self._fold.view(now), ())[""].total
        for name in replicas(plan, QUOTA):
            known = self.world.places[name].service.trees.totals("").total
            if known != published:
                raise Violation(f"{name} takes the pools to have {known}; published: {published}")


INVARIANTS = (PlansKnowThePools,)
