"""Proposals keep to their profile and to the rest of workloads, and end with constant load."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.core.at_rest import REST
from tests.world.invariants.payloads import payload_of
from tests.world.move_fleet import BARE, DAEMON
from tests.world.move_machines import NO_EVICTION
from tests.world.plan import DESCHEDULER
from tests.world.servers import Commit
from tests.world.settling import has_settled
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.decisions.record import DecisionRecord
from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.move_proposed import MoveProposed
from slackwater.events.serialized import type_of

NEVER: Final = (DAEMON, BARE)
"""Workloads of pods that no profile of a world of moves may propose."""


CLOCK_JUMP: Final = "clock jump"
AHEAD_SECONDS: Final = 10.0


class ProposedCycle:
    """What one transaction of the descheduler proposes, and the record of its cycle."""

    def __init__(self, commit: Commit) -> None:
        self.moves: list[MoveProposed] = []
        self.record: DecisionRecord | None = None
        for row in commit.inserted("outbox"):
            if row["type"] == type_of(MoveProposed):
                self.moves.append(MoveProposed.model_validate(json.loads(row["payload"])))
            elif row["type"] == type_of(DecisionRecorded):
                self.record = DecisionRecorded.model_validate(json.loads(row["payload"])).record


class ProposalsKeepToProfiles(Invariant):
    """A cycle proposes no more than its profile allows, in all, per node and per namespace; no pod that is protected,
    each for another node, and each with the record of its cycle."""

    NAME = "proposals keep to profiles"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._last: dict[str, dict[str, float]] = {}
        """By workload and pod, when it was proposed last."""

    def on_step(self, step: Step) -> None:
        if step.subject != DESCHEDULER:
            return
        cycle = ProposedCycle(step.value)
        if not cycle.moves:
            return
        record = cycle.record
        if record is None or record.compact:
            raise Violation(f"{cycle.moves[0].pod_uid} is proposed without a record that can be replayed")
        if any(move.decision_id != record.id for move in cycle.moves) or record.result != len(cycle.moves):
            raise Violation(f"{len(cycle.moves)} moves are proposed; the record {record.id} has {record.result}")
        arguments = record.replay.arguments
        profile = profile_of(DeschedulerProfile.parse_stored(arguments["profile"]))
        self._check_limits(profile, cycle.moves)
        self._check_rest(profile, cycle.moves, arguments)
        for move in cycle.moves:
            self._last.setdefault(move.workload, {})[move.pod_uid] = move.proposed_at.timestamp()

    @staticmethod
    def _check_limits(profile: DeclaredProfile, moves: Sequence[MoveProposed]) -> None:
        counts: dict[str, Counter[str]] = {name: Counter() for name in ("all", "node", "namespace", "pod")}
        for move in moves:
            if move.workload in NEVER:
                raise Violation(f"{profile.name} proposes {move.pod_uid} of {move.workload}")
            if move.target in ("", move.node):
                raise Violation(
                    f"{profile.name} proposes {move.pod_uid} from {move.node} to {move.target or 'nowhere'}"
                )
            counts["all"][""] += 1
            counts["node"][move.node] += 1
            counts["namespace"][move.namespace] += 1
            counts["pod"][move.pod_uid] += 1
        limits = profile.limits
        bounds = (("all", limits.total), ("node", limits.per_node), ("namespace", limits.per_namespace), ("pod", 1))
        for name, limit in bounds:
            count = max(counts[name].values())
            if limit is not None and count > limit:
                raise Violation(f"{profile.name} proposes {count} moves by {name}; allowed: {limit}")

    def _check_rest(
        self, profile: DeclaredProfile, moves: Sequence[MoveProposed], arguments: Mapping[str, Any]
    ) -> None:
        """By the proposals that were committed before; an eviction of another cause also counts, so there may be
        more."""
        rules, now_s = profile.rest, float(arguments["now_s"])
        pods = arguments["cluster"]["pods"]
        replicas = Counter(pod.get("workload", "") for pod in pods)
        for workload, new in Counter(move.workload for move in moves).items():
            times = [at_s for at_s in self._last.get(workload, {}).values() if now_s - at_s < rules.loop_window_s]
            size = max(1, replicas[workload])
            resting = [at_s for at_s in times if now_s - at_s < rules.rest_s]
            if len(resting) + new > size:
                raise Violation(
                    f"{profile.name} proposes {new} of {size} pods of {workload}; {len(resting)} rest for "
                    f"{rules.rest_s:g} s"
                )
            if len(times) + new > rules.loop_moves * size:
                raise Violation(
                    f"{profile.name} proposes {new} of {size} pods of {workload}; {len(times)} were moved, and "
                    f"{rules.loop_moves} of each are a loop"
                )


class MovesEndWithConstantLoad(Invariant):
    """With constant load the cluster comes to rest: no pod is proposed, and none is evicted. What a descheduler moved
    while its clock was ahead rests until that time has come; such a plan may not have come to rest yet."""

    NAME = "moves end with constant load"
    KINDS: ClassVar = (Kind.PHASE, Kind.STORED, Kind.POD_ENDED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._rests = False

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.PHASE:
            self._rests = step.subject == REST and has_settled(self.world.plan) and not self._was_ahead()
        elif not self._rests:
            return
        elif step.kind is Kind.POD_ENDED:
            if step.detail["by"] not in NO_EVICTION:
                raise Violation(f"{step.subject} is evicted at rest by {step.detail['by']}")
        elif (move := payload_of(step, MoveProposed)) is not None:
            raise Violation(f"{move.profile} proposes {move.pod_uid} from {move.node} to {move.target}: {move.reason}")

    def _was_ahead(self) -> bool:
        return any(
            fault.kind == CLOCK_JUMP and fault.target.startswith(DESCHEDULER) and fault.amount > AHEAD_SECONDS
            for fault in self.world.plan.faults
        )


INVARIANTS = (ProposalsKeepToProfiles, MovesEndWithConstantLoad)
