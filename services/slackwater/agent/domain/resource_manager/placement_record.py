"""The record of a plan of CPUs that differs from the one before: what is shared, which pods moved, and why pools have
their size. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from slackwater.agent.domain.controls.control import Cpuset
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, Alternative, CpusetChange, DecisionRecord, Input, Replay, Term
from slackwater.kernels.topology.cpu_list import cpu_list_text
from slackwater.kernels.topology.plan_replay import FUNCTION, PlanBasis, basis_document, shared_cpus
from slackwater.kernels.topology.pools import CpuPlan, HolderKind, HolderSpec
from slackwater.model.pods import Pod

SUBJECT = "cpuset"
_MOST_ACTIONS = 32
"""Pods with an action of their own; dedicated ones come first. A move of all pods of a pool is that of the pool."""
_EMPTY: Mapping[str, frozenset[int]] = {}


@dataclass(frozen=True, slots=True)
class MachinePlacement:
    """The pods of a machine and their CPUs at one time. `cpusets` is empty while every pod may run anywhere; `holders`
    are by uid."""

    basis: PlanBasis
    planned: CpuPlan
    pods: Mapping[str, Pod] = field(default_factory=dict)
    holders: Mapping[str, HolderSpec] = field(default_factory=dict)
    cpusets: Mapping[str, Cpuset] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def dedicated(self) -> Mapping[str, frozenset[int]]:
        """Returns the CPUs of each pod that shares none, by uid."""
        kind = HolderKind.DEDICATED
        return {uid: spec.cpus for uid, spec in self.holders.items() if spec.kind is kind and spec.cpus}

    @property
    def pools(self) -> Mapping[str, frozenset[int]]:
        """Returns the CPUs by pool; none while every pod may run anywhere."""
        return self.planned.pools if self.cpusets else _EMPTY


def change_of(before: MachinePlacement | None, after: MachinePlacement) -> Reason | None:
    """Returns why a placement is a decision; None where neither dedicated CPUs, nor pools, nor refusals differ."""
    dedicated = before.dedicated if before else _EMPTY
    refused = before.refused if before else {}
    if any(dedicated.get(uid) != cpus for uid, cpus in after.dedicated.items()):
        return Reason.CPUSET_ALLOCATED
    if dedicated.keys() - after.dedicated.keys():
        return Reason.CPUSET_RELEASED
    if any(refused.get(uid) != why for uid, why in after.refused.items()):
        return Reason.CPUSET_REFUSED
    return None if (before.pools if before else _EMPTY) == after.pools else Reason.CPUSET_RESIZED


def placement_record(
    id_: str, node: str, reason: Reason, now: datetime, before: MachinePlacement | None, after: MachinePlacement
) -> DecisionRecord:
    """Returns the record: the CPUs of the machine, less what is reserved and dedicated, are those that pods share."""
    basis = after.basis
    terms = _terms(after)
    return DecisionRecord(
        id=id_,
        kind=DecisionKind.CPUSET,
        node=node,
        subject=SUBJECT,
        service="agent",
        rule="",
        reason=reason,
        decided_at=now,
        trigger_event_id=None,
        inputs=_inputs(after),
        terms=terms,
        result=len(shared_cpus(basis, after.planned)),
        unit="CPUs",
        alternatives=_refusals(after),
        actions=_actions(before, after),
        replay=Replay(function=FUNCTION, arguments=basis_document(basis)),
    )


def _terms(after: MachinePlacement) -> tuple[Term, ...]:
    machine, demand = after.basis.machine, after.basis.demand
    terms = [Term(name="online", value=len(machine.ids), note=cpu_list_text(machine.ids))]
    for name, cpus in (("reserved", demand.reserved), ("forbidden", demand.forbidden - demand.reserved)):
        if cpus & machine.ids:
            terms.append(Term(name=name, value=-len(cpus & machine.ids), note=cpu_list_text(cpus & machine.ids)))
    for uid, cpus in sorted(after.dedicated.items()):
        pod = after.pods.get(uid)
        terms.append(
            Term(name=pod.name if pod else uid, value=-len(cpus), note=f"{cpu_list_text(cpus)} alone", input="requests")
        )
    return tuple(terms)


def _inputs(after: MachinePlacement) -> tuple[Input, ...]:
    by_kind: dict[HolderKind, int] = {}
    for spec in after.holders.values():
        by_kind[spec.kind] = by_kind.get(spec.kind, 0) + spec.cpu_milli
    requests = ", ".join(f"{kind} {milli}m" for kind, milli in sorted(by_kind.items()))
    pools = (
        Input(name=f"pool {decision.pool}", value=decision.sentence(), unit="", source="plan of CPUs")
        for decision in after.planned.decisions
    )
    return (Input(name="requests", value=requests, unit="", source="pods of the node"), *pools)


def _refusals(after: MachinePlacement) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(
            what=after.pods[uid].name if uid in after.pods else uid,
            rejected_because=why,
            pod_uid=uid,
            namespace=after.pods[uid].namespace if uid in after.pods else "",
        )
        for uid, why in sorted(after.refused.items())
    )


def _actions(before: MachinePlacement | None, after: MachinePlacement) -> tuple[Action, ...]:
    """The pods whose CPUs differ. Where every pod may run anywhere again, the ones that were bound."""
    earlier = before.cpusets if before else {}
    pods: Sequence[Pod] = sorted(
        (pod for uid, pod in after.pods.items() if uid in after.holders),
        key=lambda pod: (pod.uid not in after.dedicated, pod.uid),
    )
    actions = []
    for pod in pods:
        now, was = after.cpusets.get(pod.uid, Cpuset("")), earlier.get(pod.uid, Cpuset(""))
        if now != was:
            holder = after.holders[pod.uid]
            change = CpusetChange(
                before=was.cpus,
                after=now.cpus,
                memory_nodes=now.mems,
                holder=holder.kind,
                pool=holder.pool if holder.kind is HolderKind.SHARED else "",
            )
            actions.append(
                Action(
                    pod_uid=pod.uid,
                    pod_name=pod.name,
                    namespace=pod.namespace,
                    tier=pod.tier,
                    cpu_limit_before_milli=None,
                    cpu_limit_after_milli=None,
                    released_milli=0,
                    cpuset=change,
                )
            )
    return tuple(actions[:_MOST_ACTIONS])
