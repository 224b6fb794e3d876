"""Nodes, agents and an owner in a few lines, for rounds at random: no bus, no store, a clock that is handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from slackwater.descheduling.placement import PODS, PlacedPod, PlacementNode
from slackwater.migration.domain.migration_round import MigrationAsks, RoundResult, RoundWorld, migration_round
from slackwater.migration.domain.sightings import SeenCluster, SeenPod, SeenStart
from slackwater.migration.domain.stored_jobs import EvictionAnswer, GrantAnswer, MigrationLedger, StoredJob, answer_key
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.start_states import StartState
from slackwater.model.tiers import QoSClass, Tier
from slackwater.model.workload_labels import TEMPLATE_LABEL, offered_label
from slackwater.podmigration.documents import ArbitrationRules, JobRequest
from slackwater.podmigration.limits import ArbitrationArgs, MigrationLimits
from slackwater.reservations.placement import NodeRoom, room_of
from slackwater.reservations.reservation import Reservation

GRACE_S, CPU, WORKLOAD, NODES = 2.0, 4_000, "shop/web", ("n0", "n1", "n2")
RULES = ArbitrationRules(ArbitrationArgs(interval_s=1.0), MigrationLimits(object_limiters={}))
_NO_GENERATION = -1


@dataclass
class PlainAgent:
    """An agent: the document that it holds, what it has carried out, and the last report that was received of it."""

    pods: dict[str, Pod] = field(default_factory=dict)
    reported: dict[str, Pod] = field(default_factory=dict)
    reported_s: float = 0.0
    ending: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By eviction id: the pod, and when its grace is over."""
    done: set[str] = field(default_factory=set)
    starts: dict[str, SeenStart] = field(default_factory=dict)
    """What became of each start here, by its id: the agent's records."""
    told: dict[str, SeenStart] = field(default_factory=dict)
    """Those in its last answer that was received."""
    observed: tuple[int, float] = (0, 0.0)


@dataclass
class RoundWorldState:
    """What is true, and what is kept."""

    now_s: float = 1_767_571_200.0
    ledger: MigrationLedger = field(default_factory=MigrationLedger)
    agents: dict[str, PlainAgent] = field(default_factory=lambda: {name: PlainAgent() for name in NODES})
    requests: dict[str, JobRequest] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)
    said: dict[str, EvictionAnswer] = field(default_factory=dict)
    grants: dict[str, GrantAnswer] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    evicted_by: dict[str, str] = field(default_factory=dict)
    """By pod, the id of the job."""
    ended: dict[str, StoredJob] = field(default_factory=dict)
    """By id, each job as it ended: the ledger drops an ended one with its document."""
    declared: dict[str, tuple[int, dict[str, tuple[str, float]]]] = field(default_factory=dict)
    """By node: generation, and by eviction id the pod and the deadline. What the broker holds."""
    started: int = 0
    digest: str = ""
    """Of the file that all pods were started from; empty: an owner replaces them."""
    offering: set[str] = field(default_factory=set)
    """Nodes with this file."""
    declared_starts: dict[str, dict[str, float]] = field(default_factory=dict)
    """By node, the deadlines of declared starts by id."""

    def run(self, node: str) -> str:
        self.started += 1
        uid = f"pod-{self.started}"
        at = datetime.fromtimestamp(self.now_s, UTC)
        labels = {TEMPLATE_LABEL: self.digest} if self.digest else {}
        self.agents[node].pods[uid] = Pod(
            uid, uid, "shop", WORKLOAD, Tier.PROD, QoSClass.LS, 9000, Resources(1_000, 0), at, labels
        )
        return uid

    def start(self, node: str, *, fails: bool) -> None:
        """The agent goes on with starts under way, begins declared ones, once per id, and answers with all."""
        agent = self.agents[node]
        for id_, start in agent.starts.items():
            if start.state is StartState.STARTING:
                state = StartState.FAILED if fails else StartState.READY
                agent.starts[id_] = SeenStart(state, start.pod_uid, "exit code 1" if fails else "", self.now_s)
                if fails:
                    del agent.pods[start.pod_uid]
        wanted = self.declared_starts.get(node, {})
        for id_, deadline_s in wanted.items():
            if id_ in agent.starts:
                continue
            if node not in self.offering or self.now_s >= deadline_s:
                state = StartState.EXPIRED if node in self.offering else StartState.REFUSED
                agent.starts[id_] = SeenStart(state, "", "no workload file", self.now_s)
            else:
                agent.starts[id_] = SeenStart(StartState.STARTING, self.run(node), "", self.now_s)
        agent.told = {id_: agent.starts[id_] for id_ in wanted}

    def report(self, node: str) -> None:
        agent = self.agents[node]
        agent.reported, agent.reported_s = dict(agent.pods), self.now_s

    def obey(self, node: str, refusal: EvictionOutcome | None = None) -> None:
        """The agent reads its document, begins what is in it, and answers; with a refusal it begins nothing."""
        agent = self.agents[node]
        generation, items = self.declared.get(node, (_NO_GENERATION, {}))
        for id_, (uid, deadline_s) in items.items():
            if id_ in agent.done or id_ in agent.ending:
                continue
            if self.now_s >= deadline_s:
                self._answer(node, id_, EvictionOutcome.EXPIRED)
            elif uid not in agent.pods:
                self._answer(node, id_, EvictionOutcome.ALREADY_GONE)
            elif refusal is not None:
                self._answer(node, id_, refusal)
            else:
                agent.ending[id_] = (uid, self.now_s + GRACE_S)
        if generation > agent.observed[0]:
            agent.observed = (generation, self.now_s)

    def end(self) -> None:
        """What began to end has ended after its grace, whatever reaches the agent."""
        for node, agent in self.agents.items():
            for id_, (uid, over_s) in list(agent.ending.items()):
                if self.now_s >= over_s:
                    del agent.ending[id_], agent.pods[uid]
                    self.evicted.append(uid)
                    self.evicted_by[uid] = id_.rpartition("-")[0]
                    self._answer(node, id_, EvictionOutcome.TERMINATED)

    def _answer(self, node: str, id_: str, outcome: EvictionOutcome) -> None:
        assert id_ not in self.agents[node].done, "carried out twice"
        self.agents[node].done.add(id_)
        said = EvictionAnswer(node, id_, outcome.value, "", self.now_s, self.now_s)
        self.said[said.key] = said

    def round(self) -> RoundResult:
        """One round, as the service runs it; what it declares is in the broker afterwards."""
        asks = MigrationAsks(jobs=self.requests, withdrawn=self.withdrawn)
        world = RoundWorld(self._seen(), self._rooms, self._pods_on, NODES)
        result = migration_round(self.ledger, asks, world, RULES, GRACE_S, self.now_s)
        state = replace(result.ledger.state, generation=self.ledger.state.generation + 1)
        self.ledger = replace(result.ledger, state=state)
        for stored in self.ledger.jobs.values():
            if not stored.is_live:
                self.ended.setdefault(stored.job.id, stored)
        for declared in result.declared:
            items = {each.eviction_id: (each.job.pod, each.job.evict_by_s or 0.0) for each in declared.jobs}
            self.declared[declared.node] = (declared.generation, items)
            self.declared_starts[declared.node] = {
                each.start_id: each.job.start_by_s or 0.0 for each in declared.starts
            }
        for asked in result.grant_requests:
            granted = tuple(job for job, _ in asked.pools)
            self.grants[asked.request] = GrantAnswer(asked.request, granted, "", None, self.now_s + 120)
        return result

    def _seen(self) -> SeenCluster:
        pods: dict[str, SeenPod] = {}
        for name, agent in self.agents.items():
            fresh = self.now_s - agent.reported_s <= 60.0
            pods |= {uid: SeenPod(pod, name, None, agent.reported_s, fresh) for uid, pod in agent.reported.items()}
        return SeenCluster(
            pods=pods,
            by_name={("shop", uid): uid for uid in pods},
            by_workload={WORKLOAD: sorted(pods)},
            replicas={WORKLOAD: len(pods)},
            reported_s={name: agent.reported_s for name, agent in self.agents.items()},
            fresh={name for name, agent in self.agents.items() if self.now_s - agent.reported_s <= 60.0},
            pools=dict.fromkeys(NODES, "default"),
            evictions=dict(self.said),
            grants=dict(self.grants),
            observed={name: agent.observed for name, agent in self.agents.items()},
            starts={
                answer_key(name, id_): start for name, agent in self.agents.items() for id_, start in agent.told.items()
            },
            offers=lambda node, workload: self.digest if node in self.offering else "",
        )

    def _pods_on(self, node: str) -> Sequence[PlacedPod] | None:
        agent = self.agents[node]
        if self.now_s - agent.reported_s > 60.0:
            return None
        return [
            PlacedPod(
                pod.uid, pod.name, "shop", node, WORKLOAD, tier=pod.tier, requests={"cpu": pod.request.cpu_milli},
                created_s=pod.started_at.timestamp(),
            )
            for pod in agent.reported.values()
        ]  # fmt: skip

    def _rooms(self, reservations: Sequence[Reservation], lower_yield: bool) -> Sequence[NodeRoom]:
        return [
            room_of(self._placement(name), self._pods_on(name) or (), reservations, {"cpu": 1.0})
            for name in NODES
            if self._pods_on(name) is not None
        ]

    def _placement(self, name: str) -> PlacementNode:
        labels = {offered_label(WORKLOAD): self.digest} if name in self.offering else {}
        return PlacementNode(name, {"cpu": CPU, PODS: 100}, labels=labels)
