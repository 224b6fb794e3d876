"""Area `quota.manager` of koord_quota_sched.json: steps on the peer's quota manager, and its figures after them.

Here nothing is kept by deltas: quotas are documents, pods are claims, and every figure is computed of what is there.
Claims on quotas that may have children are counted as they stand; that none are admitted is `quota.webhook` there and
the arbitration's part here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from koord_quota_pools import UNNAMED_POOL, view_of
from verdicts import Adaptor, Case, Verdict, differ

from slackwater.fairshare.arbitration_plan import RefusalReason
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claim_intake import refusal_of
from slackwater.fairshare.claims import ClaimState, QuotaClaim, admit
from slackwater.fairshare.debts import QuotaAccounts, accounts
from slackwater.fairshare.documents import default_document, quota_of
from slackwater.fairshare.tree import ROOT, Amounts, Quota, QuotaLedger, added, children_of, demand_of, ledger
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.fairshare.tree_state import TreeState
from slackwater.fairshare.validation import SYSTEM, QuotaRule, refusals
from slackwater.koordinator import quota_objects
from slackwater.model.tiers import Tier
from slackwater.quota.domain.claim_requests import Release
from slackwater.quota.domain.pool_totals import TreeTotals, totals_of
from slackwater.resources.names import CLUSTER

_NAMES: Final = {**quota_objects.BUILT_IN, quota_objects.SYSTEM: SYSTEM}
_GUARANTEE: Final = "ElasticQuotaGuaranteeUsage"
_IGNORE: Final = "ElasticQuotaIgnoreTerminatingPod"
_IGNORE_AT_ONCE: Final = "ElasticQuotaImmediateIgnoreTerminatingPod"
_NODES: Final = ("cpu", "memory")
"""What nodes are described with; other resources of the peer's cluster are given as they are."""
_OF_ALL: Final = ("request", "child_request", "used", "np_used", "non_preemptible_used")
"""Figures of the root in which the peer counts what the system's pods have, too."""
_BEYOND_ALL: Final = 2**62
_NO_FIGURE: Final = {
    "guaranteed": "quota-guaranteed-by-declaration",
    "allocated": "quota-guaranteed-by-declaration",
    "np_request": "quota-non-preemptible-use",
    "self_np_request": "quota-non-preemptible-use",
}
"""Fields that have no counterpart, and the difference that says so."""


@dataclass
class _Sums:
    """What deltas of one quota add up to."""

    request: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    non_preemptible_used: Amounts = field(default_factory=dict)

    def claims(self, quota: str) -> Iterator[QuotaClaim]:
        """Claims with these sums."""
        bound = self.non_preemptible_used
        free = {key: amount - bound.get(key, 0) for key, amount in self.used.items()}
        rest = {key: max(amount - self.used.get(key, 0), 0) for key, amount in self.request.items()}
        for name, amounts, fixed in (("free", free, False), ("bound", bound, True)):
            yield admit(_claim(f"{quota}/{name}", quota, amounts, fixed), amounts, 0.0)
        yield _claim(f"{quota}/queued", quota, rest, False)


@dataclass
class _Cluster:
    """Quotas, claims and totals after some steps."""

    scales: bool
    gates: frozenset[str]
    quotas: dict[str, Quota] = field(default_factory=lambda: {CLUSTER: quota_of(default_document(CLUSTER)).quota})
    index: ClaimIndex = field(default_factory=ClaimIndex)
    sums: dict[str, _Sums] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    """The claim of each pod."""
    ending: dict[str, str] = field(default_factory=dict)
    """Claims whose pods the peer counts no more, by quota."""
    nodes: Amounts = field(default_factory=dict)
    refused: dict[str, Amounts] = field(default_factory=dict)
    """The max of quotas whose names are not declared here, by name."""

    def apply(self, step: Mapping[str, Any]) -> None:
        match step["op"]:
            case "total_delta":
                self.nodes = added(self.nodes, step["res"])
            case "quota":
                self._declare(step)
            case "delete_quota":
                del self.quotas[_name(step["name"])]
            case "request_delta" | "used_delta":
                self._add(step)
            case "pod_add" | "pod_update" | "pod_reserve":
                self._see(step)
            case "pod_delete":
                self._release(step["pod"])
            case other:
                raise ValueError(f"there is no step {other}")

    def _declare(self, step: Mapping[str, Any]) -> None:
        quota = Quota(
            name=_name(step["name"]),
            parent=_name(step["parent"]),
            minimum=step["min"],
            maximum=step["max"],
            weight=step["weight"],
            lends=step["lend"] and _GUARANTEE not in self.gates,
            scales=self.scales,
            is_parent=step["is_parent"],
        )
        if any(refusal.rule is QuotaRule.NAME for refusal in refusals({}, quota, {})):
            self.refused[quota.name] = quota.maximum
        else:
            self.quotas[quota.name] = quota

    def _add(self, step: Mapping[str, Any]) -> None:
        quota = _name(step["quota"])
        sums = self.sums.setdefault(quota, _Sums())
        if step["op"] == "request_delta":
            sums.request = _sum(sums.request, step["res"])
        else:
            sums.used = _sum(sums.used, step["res"])
            sums.non_preemptible_used = _sum(sums.non_preemptible_used, step.get("non_preemptible") or {})
        for claim in sums.claims(quota) if quota != SYSTEM else ():
            self.index.put(claim)

    @property
    def system(self) -> Amounts:
        """What pods of the system request: used, or asked for already."""
        sums = self.sums.get(SYSTEM, _Sums())
        return {key: max(sums.request.get(key, 0), sums.used.get(key, 0)) for key in {*sums.request, *sums.used}}

    def _see(self, step: Mapping[str, Any]) -> None:
        """A pod is a claim, admitted once it has a node; one that changes its quota is released, and claims anew."""
        pod, quota = step["pod"], _name(step["quota"])
        known = self.index.by_id.get(self.pods.get(pod, ""))
        request = known.request if known is not None and "request" not in step else step["request"]
        claim = _claim(f"{quota}/pod-{pod}", quota, request, step.get("non_preemptible", False))
        if self.pods.get(pod) not in (None, claim.id):
            self._release(pod)
        refusal = refusal_of(TreeLayout(list(self.quotas.values())), claim, None)
        if refusal is not None and refusal.reason is RefusalReason.UNKNOWN_QUOTA:
            return
        was_assigned = known is not None and known.state is ClaimState.ADMITTED
        is_assigned = was_assigned or bool(step.get("node")) or step["op"] == "pod_reserve"
        self.index.put(admit(claim, claim.request, 0.0) if is_assigned else claim)
        self.pods[pod] = claim.id
        if self._is_ignored(step):
            self.ending[claim.id] = quota

    def _is_ignored(self, step: Mapping[str, Any]) -> bool:
        deleted = step.get("deleted_seconds_ago")
        if deleted is None:
            return False
        is_over = _IGNORE in self.gates and deleted > step.get("grace_seconds", 0)
        return is_over or _IGNORE_AT_ONCE in self.gates

    def _release(self, pod: str) -> None:
        claim = self.index.by_id.get(self.pods.pop(pod, ""))
        if claim is not None:
            self.index.put(Release(claim.id, claim.quota).applied(claim, 0.0) or claim)
            self.ending.pop(claim.id, None)

    def totals(self, system: Amounts) -> TreeTotals:
        view = view_of([self.nodes], [UNNAMED_POOL])
        return totals_of(view, [], {"node-0": system})[""]


class _Figures:
    """What the product says of the cluster now, the same figure from each place that has it."""

    def __init__(self, cluster: _Cluster) -> None:
        self.cluster = cluster
        index = cluster.index
        totals = cluster.totals(cluster.system).total
        self.total = {**{key: amount for key, amount in cluster.nodes.items() if key not in _NODES}, **totals}
        self.layout = TreeLayout(list(cluster.quotas.values()))
        own = [
            replace(quota, own_request=index.requested.get(quota.name, {}), own_used=index.used.get(quota.name, {}))
            for quota in cluster.quotas.values()
        ]
        self.ledger: QuotaLedger = ledger(own, self.total)
        self.state = TreeState(self.layout, index, self.total)
        self.accounts: Mapping[str, QuotaAccounts] = accounts(self.layout, index, self.total)
        tops = [self.ledger.demand[child.name] for child in children_of(own).get(ROOT, ())]
        self.root = demand_of(Quota(ROOT), tops)

    def disagreements(self) -> Iterator[str]:
        """Where the plain ledger, the arbitration's state and the accounts that users see are not the same."""
        for name, demand in self.ledger.demand.items():
            account, runtime = self.accounts[name], self.ledger.runtime[name]
            for what, one, other in (
                ("runtime", runtime, self.state.runtime[name]),
                ("runtime", runtime, account.runtime),
                ("requested", demand.limited, account.requested),
                ("used", demand.used, account.used),
                ("used", demand.used, self.state.used.get(name, {})),
            ):
                if _positive(one) != _positive(other):
                    yield f"{what} of {name} is {one} and {other}"

    def of(self, quota: str, name: str) -> Any:
        """One field of the peer's; None for a quota that is not there."""
        if quota == SYSTEM:
            return self.system_used if name in ("used", "request", "runtime") else None
        if quota == ROOT:
            return self.total if name == "runtime" else getattr(self.root, name)
        if quota not in self.cluster.quotas:
            return None
        index, declared, demand = self.cluster.index, self.cluster.quotas[quota], self.ledger.demand[quota]
        return {
            "request": demand.request,
            "child_request": demand.child_request,
            "limited_request": demand.limited,
            "used": demand.used,
            "self_request": index.requested.get(quota, {}),
            "self_used": index.used.get(quota, {}),
            "self_np_used": index.non_preemptible_used.get(quota, {}),
            "np_used": self._bound(quota),
            "runtime": self.ledger.runtime[quota],
            "auto_scale_min": self.ledger.levels[declared.parent].minimum[quota],
            "min": declared.minimum,
            "max": declared.maximum,
            "weight": declared.shared_weight,
            "parent": declared.parent,
            "is_parent": declared.is_parent,
            "pods": len([claim for claim in self.cluster.pods.values() if index.by_id[claim].quota == quota]),
        }[name]

    @property
    def system_used(self) -> Amounts:
        return self.cluster.totals(self.cluster.system).system

    def _bound(self, quota: str) -> Amounts:
        """What a claim that is not preemptible would be told is used of the quota's min."""
        probe = _claim("probe", quota, dict.fromkeys(self.cluster.quotas[quota].maximum, _BEYOND_ALL), True)
        found = self.state.min_excesses(probe, probe.request)
        return {excess.resource: excess.used for excess in found if excess.quota == quota}


def manager(case: Case) -> Verdict:
    """Every figure that is asked for; the differences on purpose are named where a figure shows them, and no others."""
    given = case["given"]
    cluster = _Cluster(given["scale_min"], frozenset(given.get("gates", ())))
    wrong: list[str] = []
    anchors: set[str] = set()
    for number, step in enumerate(case["steps"]):
        if step["op"] not in ("expect", "refresh"):
            cluster.apply(step)
            continue
        figures = _Figures(cluster)
        wrong += [f"step {number}: {said}" for said in figures.disagreements()]
        for name, got, want in _asked(figures, step):
            if name in _NO_FIGURE:
                anchors.add(_NO_FIGURE[name])
            elif not _same(got, want):
                anchor = _difference(figures, _name(step["quota"] or ""), name, got, want)
                anchors |= {anchor} if anchor else set()
                wrong += [] if anchor else [f"step {number}: {name} of {step['quota']} is {got}, want {want}"]
    if wrong:
        return Verdict("FAIL", "; ".join(wrong))
    return differ(*sorted(anchors)) if anchors else Verdict("pass")


def _asked(figures: _Figures, step: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields (field, ours, wanted)."""
    if step["op"] == "refresh":
        if "expect" in step:
            yield "runtime", figures.of(_name(step["quota"]), "runtime"), step["expect"]
        return
    cluster = figures.cluster
    for name, want in step["fields"].items():
        if step["quota"] is None:
            system: Amounts = {} if name == "total" else cluster.system
            yield name, {key: cluster.totals(system).total[key] for key in _NODES}, want
        elif name in _NO_FIGURE:
            yield name, None, want
        else:
            yield name, figures.of(_name(step["quota"]), name), _name(want) if name == "parent" else want


def _difference(figures: _Figures, quota: str, name: str, got: Any, want: Any) -> str | None:
    """The anchor of the difference on purpose that explains the figure exactly; None if none does."""
    if not isinstance(want, Mapping):
        return None
    if _is_of_default(figures, quota, name, got, want):
        return "quota-default-in-the-tree"
    if not isinstance(got, Mapping):
        return None
    index, quotas = figures.cluster.index, figures.cluster.quotas
    if quota in quotas and _same({key: got[key] for key in got if key in quotas[quota].maximum}, want):
        return "quota-unnamed-resources"
    ended = [index.by_id[claim] for claim, of in figures.cluster.ending.items() if of == quota]
    counted = [claim.holds if name.endswith("used") else claim.wants for claim in ended]
    if ended and _same(got, added(want, *counted)):
        return "quota-used-until-the-end"
    return None


def _is_of_default(figures: _Figures, quota: str, name: str, got: Any, want: Any) -> bool:
    """Whether the figure is what it is because default and system are outside of the peer's tree."""
    cluster = figures.cluster
    if name == "total_except_system_default" or (quota, name) == (ROOT, "runtime"):
        return _same(got, added(want, figures.ledger.demand[CLUSTER].used))
    if quota == ROOT and name in _OF_ALL:
        return _same(added(got, figures.system_used), want)
    if got is not None and quota not in (CLUSTER, SYSTEM):
        return False
    peers_max = {**cluster.refused, CLUSTER: cluster.quotas[CLUSTER].maximum}.get(quota)
    return name in ("runtime", "max") and peers_max is not None and _same(peers_max, want)


def _claim(name: str, quota: str, request: Amounts, non_preemptible: bool) -> QuotaClaim:
    return QuotaClaim(
        name, quota, Tier.PROD, dict(request), 0.0, non_preemptible=non_preemptible, state=ClaimState.QUEUED
    )


def _sum(amounts: Amounts, delta: Amounts) -> Amounts:
    """What is left is never less than nothing."""
    return {key: max(amount, 0) for key, amount in added(amounts, delta).items()}


def _name(peers: str) -> str:
    return _NAMES.get(peers, peers)


def _same(got: Any, want: Any) -> bool:
    """An amount that is absent is one of 0."""
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        return _positive(got) == _positive(want)
    return type(got) is type(want) and got == want


def _positive(amounts: Amounts) -> dict[str, int]:
    return {key: amount for key, amount in amounts.items() if amount}


ADAPTORS: Mapping[str, Adaptor] = {"quota.manager": manager}
