"""One cycle of a profile: plugins propose, filters and limits decide, and every refusal is counted by its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from slackwater.descheduling.evictability import ProtectionReason
from slackwater.descheduling.move_history import Moves, RestRules, stay_reason, with_moves
from slackwater.descheduling.placement import ClusterPlacement, EvictionGate, EvictionProposal, PlacedPod, after_moves
from slackwater.descheduling.placement_index import PlacementIndex
from slackwater.descheduling.placer import Placer
from slackwater.descheduling.plugins import (
    BalancePoint,
    DeschedulePoint,
    EvictPoint,
    FilterPoint,
    MoveJudge,
    Plugin,
    PreEvictionFilterPoint,
    SortPoint,
    UndoPoint,
)
from slackwater.model.records import record

NO_TARGET: Final = "no_target"
"""No other node holds the pod, or none that would be better."""
UNDONE: Final = "would_be_undone"
"""Each node that holds the pod is one that another plugin of the profile would move it, or others, away from."""
FORBIDDEN: Final = "target_forbidden"
"""A hard rule of placement keeps the pod off the target that its plugin chose."""
NOT_SUBMITTED: Final = "not_submitted"
"""A plugin of the Evict point left the proposal out."""
MOST_HELD: Final = 50
"""Pods that a cycle names with what held them; all are counted."""
_Propose = Callable[[ClusterPlacement, float, EvictionGate], Sequence[EvictionProposal]]


@record(frozen=True, slots=True)
class CycleLimits:
    """At most this many proposals in a cycle. None: no limit."""

    total: int | None = None
    per_node: int | None = None
    per_namespace: int | None = None


class CycleCounts:
    """Counts proposals by node and namespace, and compares them with the limits: in all, then node, then namespace."""

    def __init__(self, limits: CycleLimits) -> None:
        self._limits = limits
        self.total = 0
        self.per_node: Counter[str] = Counter()
        self.per_namespace: Counter[str] = Counter()

    def refusal(self, namespace: str, node: str) -> str | None:
        """Returns the limit that is reached; None where there is room."""
        checks = (
            ("total", self.total, self._limits.total),
            ("per_node", self.per_node[node], self._limits.per_node),
            ("per_namespace", self.per_namespace[namespace], self._limits.per_namespace),
        )
        return next((name for name, count, limit in checks if limit is not None and count >= limit), None)

    def record(self, namespace: str, node: str) -> None:
        """Counts a proposal."""
        self.total += 1
        self.per_node[node] += 1
        self.per_namespace[namespace] += 1


@record(frozen=True, slots=True)
class HeldProposal:
    """A pod that a plugin would have proposed, and what held it."""

    uid: str
    name: str
    namespace: str
    reason: str
    detail: str = ""
    """Names of the rules that are not read, where they are what held it."""


class MoveJudges:
    """The judges of several plugins, which are made when the first move is judged."""

    def __init__(self, plugins: Sequence[UndoPoint], cluster: ClusterPlacement, now_s: float) -> None:
        self._plugins = plugins
        self._cluster = cluster
        self._now_s = now_s

    @cached_property
    def _judges(self) -> Sequence[MoveJudge]:
        return [plugin.move_judge(self._cluster, self._now_s) for plugin in self._plugins]

    def undo(self, pod: PlacedPod, target: str) -> bool:
        """Whether one of the plugins would undo the move."""
        return any(judge.undoes(pod, target) for judge in self._judges)

    def moved(self, pod: PlacedPod, target: str) -> None:
        """Note a move."""
        for judge in self._judges:
            judge.moved(pod, target)


class CycleGate:
    """The filters and limits of a cycle: what plugins ask before they propose."""

    def __init__(
        self,
        filters: Sequence[FilterPoint],
        limits: CycleLimits,
        moves: Moves,
        rules: RestRules,
        replicas: Mapping[str, int],
        now_s: float,
        placer: Placer | None = None,
    ) -> None:
        self.placer = placer
        self.judges = MoveJudges((), ClusterPlacement((), {}), now_s)
        """Of the other plugins than the one that proposes."""
        self._filters = filters
        self._rules = rules
        self._replicas = replicas
        self._now_s = now_s
        self._proposed: set[str] = set()
        self.counts = CycleCounts(limits)
        self._moves = moves
        self._moving: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.held: dict[str, HeldProposal] = {}

    def allows(self, pod: PlacedPod) -> bool:
        """Whether the pod may be proposed now; counts the reason where it may not."""
        reason = self.refusal(pod)
        if reason is not None:
            self._hold(pod, reason)
        return reason is None

    def refusal(self, pod: PlacedPod) -> str | None:
        """Returns the first reason against the pod."""
        if pod.uid in self._proposed:
            return "proposed"
        for plugin in self._filters:
            reason = plugin.filter(pod, self._now_s)
            if reason is not None:
                return reason
        replicas = self._replicas.get(pod.workload, 1)
        moving = self._moving[pod.workload] if pod.workload else 0
        stay = stay_reason(self._moves, pod.workload, self._now_s, self._rules, replicas=replicas, moving=moving)
        return self.counts.refusal(pod.namespace, pod.node) if stay is None else stay

    def place(self, pod: PlacedPod, among: Collection[str] | None = None) -> str | None:
        """slackwater.descheduling.placement.EvictionGate; counts a pod that finds no place."""
        if self.placer is None or pod.has_failed:
            return ""
        undone: list[str] = []

        def accepts(name: str) -> bool:
            if self.accepts(pod, name):
                return True
            undone.append(name)
            return False

        target = self.placer.place(pod, among, accepts)
        if target is None:
            self._hold(pod, UNDONE if undone else NO_TARGET)
        return target

    def accepts(self, pod: PlacedPod, target: str) -> bool:
        """slackwater.descheduling.placement.EvictionGate."""
        return not self.judges.undo(pod, target)

    def _hold(self, pod: PlacedPod, reason: str) -> None:
        self.refusals[reason] += 1
        if len(self.held) < MOST_HELD and pod.uid not in self._proposed:
            unread = ", ".join(pod.unread_rules) if reason == ProtectionReason.UNREAD_RULES else ""
            self.held.setdefault(pod.uid, HeldProposal(pod.uid, pod.name, pod.namespace, reason, unread))

    def record(self, pod: PlacedPod, target: str = "") -> None:
        """Counts a proposed pod, and its workload as moved."""
        if target:
            self.judges.moved(pod, target)
        self._proposed.add(pod.uid)
        self.held.pop(pod.uid, None)
        self.counts.record(pod.namespace, pod.node)
        self._moving[pod.workload] += 1


@record(frozen=True, slots=True)
class CyclePlan:
    """What a cycle proposes, what it dropped, and the moves to remember if the proposals are submitted."""

    proposals: Sequence[EvictionProposal]
    dropped: Mapping[str, str]
    """By pod: why its proposal is not submitted."""
    refusals: Mapping[str, int]
    moves: Moves
    held: Sequence[HeldProposal] = ()
    """The first pods that were refused and are not proposed."""


def run_cycle(
    cluster: ClusterPlacement,
    plugins: Sequence[Plugin],
    now_s: float,
    *,
    limits: CycleLimits = CycleLimits(),  # noqa: B008 - a value
    moves: Moves | None = None,
    rules: RestRules = RestRules(),  # noqa: B008 - a value
    replicas: Mapping[str, int] | None = None,
    margin: float | None = None,
) -> CyclePlan:
    """Returns the plan of a cycle: Deschedule before Balance, each in the order of the plugins, then PreEvictionFilter,
    Sort and Evict. Each plugin sees the cluster after the moves of those before it. A pod without workload does not
    rest, because its next pod is not known to be the same one. `margin`: a proposal needs a target that stays so far
    below its allocatable amounts, 0..1; None: targets are the plugins' concern alone."""
    filters = [plugin for plugin in plugins if isinstance(plugin, FilterPoint)]
    gate = CycleGate(filters, limits, moves or {}, rules, replicas or {}, now_s)
    proposals: list[EvictionProposal] = []
    dropped: dict[str, str] = {}
    for plugin, propose in _proposers(plugins):
        current = after_moves(cluster, proposals)
        gate.placer = None if margin is None else Placer(current, margin)
        others = [each for each in plugins if isinstance(each, UndoPoint) and each is not plugin]
        gate.judges = MoveJudges(others, current, now_s)
        check = _LastCheck(current, MoveJudges(others, current, now_s))
        for proposal in propose(current, now_s, gate):
            target = proposal.target or gate.place(proposal.pod)
            reason = NO_TARGET if target is None else check.refusal(proposal.pod, target)
            if target is None or reason is not None:
                dropped[proposal.pod.uid] = reason or NO_TARGET
            else:
                proposals.append(replace(proposal, target=target))
    last_checks = [plugin for plugin in plugins if isinstance(plugin, PreEvictionFilterPoint)]
    accepted: list[EvictionProposal] = []
    for proposal in proposals:
        reasons = (plugin.pre_eviction_filter(proposal, cluster, now_s) for plugin in last_checks)
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is None:
            accepted.append(proposal)
        else:
            dropped[proposal.pod.uid] = reason
    for plugin in plugins:
        if isinstance(plugin, SortPoint):
            accepted = list(plugin.sort(accepted))
    for plugin in plugins:
        if isinstance(plugin, EvictPoint):
            submitted = plugin.evict(accepted, now_s)
            dropped |= {each.pod.uid: NOT_SUBMITTED for each in accepted if each.pod.uid not in submitted}
            accepted = [each for each in accepted if each.pod.uid in submitted]
    moved = Counter(proposal.pod.workload for proposal in accepted)
    following = with_moves(moves or {}, moved, now_s, rules)
    return CyclePlan(accepted, dropped, gate.refusals, following, tuple(gate.held.values()))


class _LastCheck:
    """Every proposal with a target goes through it, in the order in which a plugin makes them."""

    def __init__(self, cluster: ClusterPlacement, judges: MoveJudges) -> None:
        self._rules = PlacementIndex(cluster)
        self._names = {node.name for node in cluster.nodes}
        self._judges = judges

    def refusal(self, pod: PlacedPod, target: str) -> str | None:
        if pod.has_failed or target not in self._names:
            return None
        if not self._rules.allows(pod, target):
            return FORBIDDEN
        if self._judges.undo(pod, target):
            return UNDONE
        self._rules.place(pod, target)
        self._judges.moved(pod, target)
        return None


def _proposers(plugins: Sequence[Plugin]) -> Iterator[tuple[Plugin, _Propose]]:
    yield from ((plugin, plugin.deschedule) for plugin in plugins if isinstance(plugin, DeschedulePoint))
    yield from ((plugin, plugin.balance) for plugin in plugins if isinstance(plugin, BalancePoint))
