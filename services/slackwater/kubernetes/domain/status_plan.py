"""Plans writes to the status of nodes: which differ from their offer, in which order, and how many now. Pure.

    wanted   what the offer lends, per resource name; nothing while the offer is degraded to nothing, disabled or gone.
             A name that another manager owns is left to it, and the others are written
    differs  an amount in the status is another one, or the names that Slackwater has applied are not those wanted

Amounts that fall go before those that rise, and among each the node with the least headroom first: there the scheduler
would bind pods for which nothing is left. A token bucket bounds the writes; what waits is planned again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from slackwater.apiserver.resource_names import ALIAS_DOMAIN, OWN_DOMAIN, OWN_NAMES
from slackwater.decisions.reasons import Reason
from slackwater.model.bounds import Count, Items, Moment, Name
from slackwater.model.records import record

Amounts = Mapping[str, int]


@record(frozen=True, slots=True)
class LentAmount:
    """One resource that is lent: `subject` is `batch-cpu`, `batch-memory`, `mid-cpu` or `mid-memory`; milli-cores or
    bytes. `decision` is the record that explains it."""

    subject: Name
    amount: Count
    decision: Name = ""


@record(frozen=True, slots=True)
class LentOffer:
    """What an offer lends on a node. `lent` is empty if it is degraded to nothing; `degraded` says why it is lower."""

    event: Name
    offered_at: Moment
    lent: Items[LentAmount]
    degraded: Name = ""


@record(frozen=True, slots=True)
class NodeStatusFacts:
    """A node of the cluster. `in_status` are the amounts in its status by resource name, `owned` the names that
    Slackwater has applied, `foreign` those of other managers with the managers' names, `residual` the amounts of
    Slackwater that are left under some of these, `borrowed` the requests of its pods. `waits_until`: after a refusal no
    write before. `is_settling`: a write was made that the watch has not shown yet."""

    node: Name
    uid: Name
    in_status: Mapping[Name, Count]
    owned: frozenset[Name]
    borrowed: Mapping[Name, Count]
    offer: LentOffer | None
    waits_until: Moment | None = None
    is_settling: bool = False
    foreign: Mapping[Name, Name] = field(default_factory=dict)
    residual: Mapping[Name, Count] = field(default_factory=dict)


@record(frozen=True, slots=True)
class StatusPolicy:
    """`enabled`: whether offers are written at all. `aliases`: also under the names of the field's schedulers.
    `orphan_seconds`: after so long without any offer a node's lent resources are withdrawn."""

    enabled: bool = True
    aliases: bool = False
    writes_per_second: float = 50.0
    burst: Count = 100
    orphan_seconds: float = 120.0


@record(frozen=True, slots=True)
class TokenBucket:
    """Writes that may be made at once, as of `at`; None: full."""

    left: float = 0.0
    at: Moment | None = None


@record(frozen=True, slots=True)
class StatusSnapshot:
    """The nodes to decide about. `offers_since` is since when offers are received; None: not yet."""

    nodes: tuple[NodeStatusFacts, ...]
    policy: StatusPolicy
    bucket: TokenBucket
    offers_since: datetime | None


@record(frozen=True, slots=True)
class AmountChange:
    """One amount in a status, before and after a write; None: not there. Equal if Slackwater only begins to own it."""

    name: Name
    before: int | None
    after: int | None


@record(frozen=True, slots=True)
class ForeignAmount:
    """A name that Slackwater would write, and leaves to the manager that owns it. `manager` is empty where the API
    server has noted none."""

    node: Name
    name: Name
    manager: Name


@record(frozen=True, slots=True)
class StatusPatch:
    """One write: `amounts` are all that the node's status shall have of Slackwater. `headroom` is the smallest part of
    them that no pod has requested."""

    node: Name
    uid: Name
    amounts: Mapping[Name, Count]
    changes: tuple[AmountChange, ...]
    reason: Reason
    headroom: float
    offer: LentOffer | None


@record(frozen=True, slots=True)
class StatusPlan:
    """The writes to make now, in order; how many nodes wait for tokens; when to plan again without news; and what is
    left to other managers."""

    patches: tuple[StatusPatch, ...]
    deferred: int
    bucket: TokenBucket
    again_at: datetime | None
    foreign: tuple[ForeignAmount, ...] = ()


def plan_status_patches(snapshot: StatusSnapshot, now: datetime) -> StatusPlan:
    """The plan for a snapshot."""
    policy, waits = snapshot.policy, list[datetime]()
    due = list[StatusPatch]()
    for facts in snapshot.nodes:
        if _is_undecided(facts, snapshot, now):
            if (facts.owned or facts.residual) and snapshot.offers_since is not None:
                waits.append(snapshot.offers_since + timedelta(seconds=policy.orphan_seconds))
            continue
        patch = patch_of(facts, policy)
        if patch is None:
            continue
        if facts.waits_until is not None and facts.waits_until > now:
            waits.append(facts.waits_until)
        elif not facts.is_settling:
            due.append(patch)
    due.sort(key=_urgency)
    left = tokens(snapshot.bucket, policy, now)
    made = due[: int(left)]
    deferred = len(due) - len(made)
    if deferred:
        missing = 1 - (left - len(made))
        waits.append(now + timedelta(seconds=missing / policy.writes_per_second))
    foreign = tuple(amount for facts in snapshot.nodes for amount in foreign_amounts(facts, policy))
    return StatusPlan(tuple(made), deferred, TokenBucket(left - len(made), now), min(waits, default=None), foreign)


def patch_of(facts: NodeStatusFacts, policy: StatusPolicy) -> StatusPatch | None:
    """The write that a node needs; None if its status is as wanted. Quantities are compared as numbers, so that a
    write without effect is never made."""
    wanted = {name: amount for name, amount in wanted_amounts(facts.offer, policy).items() if name not in facts.foreign}
    changes = (
        *(
            AmountChange(name, facts.in_status.get(name), wanted.get(name))
            for name in sorted({*wanted, *facts.owned})
            if name not in facts.owned or facts.in_status.get(name) != wanted.get(name)
        ),
        *(AmountChange(name, amount, None) for name, amount in sorted(facts.residual.items())),
    )
    if not changes:
        return None
    headroom = _headroom(facts, wanted)
    return StatusPatch(facts.node, facts.uid, wanted, changes, _reason(facts, policy), headroom, facts.offer)


def foreign_amounts(facts: NodeStatusFacts, policy: StatusPolicy) -> Sequence[ForeignAmount]:
    """What is left to other managers: names that the offer has, and Slackwater's own names in any case."""
    names = {*wanted_amounts(facts.offer, policy), *OWN_NAMES}
    return [ForeignAmount(facts.node, name, facts.foreign[name]) for name in sorted(names & facts.foreign.keys())]


def wanted_amounts(offer: LentOffer | None, policy: StatusPolicy) -> Amounts:
    """What the status shall have, by resource name."""
    if offer is None or not policy.enabled:
        return {}
    domains = (OWN_DOMAIN, ALIAS_DOMAIN) if policy.aliases else (OWN_DOMAIN,)
    return {f"{domain}/{lent.subject}": lent.amount for domain in domains for lent in offer.lent}


def tokens(bucket: TokenBucket, policy: StatusPolicy, now: datetime) -> float:
    """Writes that may be made now. A clock that went back refills nothing."""
    if bucket.at is None:
        return float(policy.burst)
    passed = max(0.0, (now - bucket.at).total_seconds())
    return min(float(policy.burst), bucket.left + passed * policy.writes_per_second)


def _is_undecided(facts: NodeStatusFacts, snapshot: StatusSnapshot, now: datetime) -> bool:
    """Whether the node's offer may only not be read yet. Then its status stays as it is, because after a restart of
    this service offers arrive one by one."""
    if facts.offer is not None or not snapshot.policy.enabled:
        return False
    since = snapshot.offers_since
    return since is None or now < since + timedelta(seconds=snapshot.policy.orphan_seconds)


def _reason(facts: NodeStatusFacts, policy: StatusPolicy) -> Reason:
    if not policy.enabled:
        return Reason.STATUS_DISABLED
    if facts.offer is None:
        return Reason.STATUS_WITHOUT_OFFER
    return Reason.STATUS_OFFER_CHANGED if facts.offer.lent else Reason.STATUS_OFFER_WITHDRAWN


_NO_PODS: Final = float("inf")


def _headroom(facts: NodeStatusFacts, wanted: Amounts) -> float:
    """The smallest part of a wanted amount that no pod has requested: negative where pods have requested more."""
    names = {name for name, amount in facts.borrowed.items() if amount}
    return min(
        ((wanted.get(name, 0) - facts.borrowed[name]) / max(1, wanted.get(name, 0)) for name in names), default=_NO_PODS
    )


def _urgency(patch: StatusPatch) -> tuple[bool, float, float, str]:
    falls = (1 - (change.after or 0) / change.before for change in patch.changes if change.before)
    largest_fall = max(falls, default=0.0)
    return largest_fall <= 0, patch.headroom, -largest_fall, patch.node
