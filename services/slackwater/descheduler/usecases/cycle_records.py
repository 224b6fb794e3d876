"""The decision record of a cycle."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, Alternative, DecisionRecord, Input, Replay, Term
from slackwater.descheduler.domain.cycle_replay import FUNCTION
from slackwater.descheduling.cycle import NO_TARGET
from slackwater.descheduling.low_node_load import RoundEnd
from slackwater.descheduling.profile import CycleTrigger, DeclaredProfile
from slackwater.descheduling.profile_cycle import PlannedMove, ProfilePlan

SERVICE: Final = "descheduler"
RULE: Final = "cycle"
UNIT: Final = "moves"
MOST_LISTED: Final = 200
"""Moves and workloads in one record; the events have all."""
_IDS: Final = uuid.UUID("8f0c3a52-6b0d-5b7e-9f2e-3c4f1d2b7a90")
_ENDS: Final = {
    RoundEnd.NO_SOURCE: "no node is above its high thresholds",
    RoundEnd.NOT_ANOMALOUS: "nodes are above their high thresholds, but not for enough rounds",
    RoundEnd.NO_TARGET: "no node is below its low thresholds",
    RoundEnd.NO_FIT: "no node below its low thresholds has room for any pod of those above their high ones",
    RoundEnd.FEW_LOW_NODES: "too few nodes are below their low thresholds",
    RoundEnd.ALL_LOW: "all nodes are below their low thresholds",
    RoundEnd.DONE: "nodes above their high thresholds were relieved as far as limits and targets allow",
}

_HELD: Final = {NO_TARGET: "no other node holds it, or none that would be better"}


def place_of(profile: str) -> str:
    """Returns what stands for a node in records about a profile. No node has a colon in its name."""
    return f"descheduler:{profile}"


def cycle_record(
    profile: DeclaredProfile,
    cycle: int,
    trigger: CycleTrigger,
    plan: ProfilePlan,
    figures: Mapping[str, int],
    arguments: Mapping[str, Any] | None,
    now: datetime,
) -> DecisionRecord:
    """Returns the record of one cycle. `figures` are counts of what it read, `arguments` those of its replay (None:
    too large)."""
    by_plugin = Counter(move.plugin for move in plan.moves)
    reason = _reason(profile, plan)
    source = f"deschedulerprofile/{profile.name}@{profile.generation}"
    inputs = [Input(name="trigger", value=trigger.value, unit="", source="event")]
    inputs += [Input(name=name, value=count, unit="", source="cluster") for name, count in figures.items()]
    inputs.append(Input(name="profile", value=source, unit="", source=source))
    inputs += [
        Input(name=f"pool {pool}", value=_ENDS[end], unit="", source=source) for pool, end in sorted(plan.ends.items())
    ]
    inputs += [
        Input(
            name=f"move {move.pod.namespace}/{move.pod.name}",
            value=f"{move.pod.node} to {move.target or 'any node'}, gain {move.gain:.3f}: {move.reason}",
            unit="",
            source=move.plugin,
        )
        for move in plan.moves[:MOST_LISTED]
    ]
    return DecisionRecord(
        id=decision_id(profile.name, cycle, now),
        kind=DecisionKind.DESCHEDULE,
        node=place_of(profile.name),
        subject=profile.name,
        service=SERVICE,
        rule=RULE,
        reason=reason,
        decided_at=now,
        trigger_event_id=None,
        inputs=tuple(inputs),
        terms=tuple(
            Term(name=plugin, value=count, note="proposed", input="trigger") for plugin, count in by_plugin.items()
        ),
        result=len(plan.moves),
        unit=UNIT,
        alternatives=tuple(_alternatives(plan)),
        actions=tuple(_action(move) for move in plan.moves[:MOST_LISTED]),
        remaining_because="; ".join(_ENDS[end] for end in dict.fromkeys(plan.ends.values())),
        replay=Replay(function=FUNCTION, arguments=dict(arguments or {})),
        compact=arguments is None,
    )


def decision_id(profile: str, cycle: int, now: datetime) -> str:
    """Returns the id of a cycle's record. A profile that was deleted and made again counts its cycles anew."""
    return str(uuid.uuid5(_IDS, f"{profile}|{cycle}|{now.timestamp()}"))


def proposal_id(decision: str, pod_uid: str) -> str:
    """Returns the id of the proposal of one pod: the same decision has the same ids."""
    return str(uuid.uuid5(_IDS, f"{decision}|{pod_uid}"))


def outcome_of(profile: DeclaredProfile, plan: ProfilePlan) -> str:
    """Returns what a cycle came to, in one line: a quiet cycle with the outcome of the last one is not recorded."""
    refusals = ",".join(f"{reason}" for reason in plan.refusals)
    ends = ",".join(f"{pool}={end.value}" for pool, end in sorted(plan.ends.items()))
    moves = ",".join(sorted(f"{move.pod.uid}>{move.target}" for move in plan.moves))
    return f"{profile.generation}|{profile.dry_run}|{ends}|{refusals}|{','.join(plan.looping)}|{moves}"


def _reason(profile: DeclaredProfile, plan: ProfilePlan) -> Reason:
    if plan.moves:
        return Reason.DESCHEDULE_DRY_RUN if profile.dry_run else Reason.DESCHEDULE_PROPOSED
    return Reason.DESCHEDULE_LOOPING if plan.looping else Reason.DESCHEDULE_NOTHING


def _alternatives(plan: ProfilePlan) -> Sequence[Alternative]:
    """Pods that were not proposed, counted by reason, and the first of them by name; workloads that are stopped."""
    dropped = Counter(plan.dropped.values())
    counts = {**plan.refusals, **{f"{reason} before eviction": count for reason, count in dropped.items()}}
    found = [
        Alternative(what=f"{count} pod{'s' * (count != 1)}", rejected_because=reason.replace("_", " "))
        for reason, count in counts.items()
    ]
    pods = [
        Alternative(
            what=f"pod {held.namespace}/{held.name}",
            rejected_because=_HELD.get(held.reason, held.reason.replace("_", " "))
            + (f": {held.detail}" if held.detail else ""),
            pod_uid=held.uid,
            namespace=held.namespace,
        )
        for held in plan.held
    ]
    stopped = plan.looping[:MOST_LISTED]
    return [
        *found,
        *pods,
        *(Alternative(what=f"workload {name}", rejected_because="moved too often: a loop") for name in stopped),
    ]


def _action(move: PlannedMove) -> Action:
    pod = move.pod
    return Action(
        pod_uid=pod.uid,
        pod_name=pod.name,
        namespace=pod.namespace,
        tier="" if pod.tier is None else pod.tier.value,
        cpu_limit_before_milli=None,
        cpu_limit_after_milli=None,
        released_milli=int((pod.usage or {}).get("cpu", 0)),
    )
