"""Asks for a grant to evict what a tree wants to reclaim, and requests the evictions that were granted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from slackwater.events.envelope import Payload
from slackwater.events.eviction_requested import EvictionRequested, RequestedEviction
from slackwater.events.reclaim_requested import ReclaimRequested, WantedReclaim
from slackwater.fairshare.arbitration_plan import ArbitrationPlan
from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.domain.reclaim_grant import (
    VALID_S,
    EvictablePod,
    ReclaimGrant,
    WantedGrant,
    asked,
    evictions_of,
    wanted_grant,
)
from slackwater.quota.domain.tree_ledger import TreeLedger
from slackwater.quota.usecases.quota_trees import QuotaTrees

_IDS: Final = uuid.UUID("0a5b1b6e-6a53-5f0e-8a0e-2f6f0d7a26e1")
BEGINS_WITHIN: Final = timedelta(seconds=60)
"""An eviction begins so long after its request or not at all: the agent may have been cut off."""


def reclaim_requests(
    tree: str,
    plan: ArbitrationPlan,
    after: Mapping[str, QuotaClaim],
    current: TreeLedger,
    trees: QuotaTrees,
    decision_of: Callable[[str], str],
    now: datetime,
) -> tuple[ReclaimGrant, Sequence[Payload]]:
    """Returns the tree's grant after this plan, the same where nothing is asked, and what has to be published.

    `after` are the claims that the plan changes; `decision_of` returns the decision that told a claim to end.
    """
    now_s, grant = now.timestamp(), current.stored.grant
    claims = {**current.index.reclaiming, **after}
    reclaiming = {name: claim for name, claim in claims.items() if claim.state is ClaimState.RECLAIMING}
    concerned = {*reclaiming, *(reclaim.victim for reclaim in plan.ungranted)}
    if not concerned:
        return grant, ()
    by_key, running = trees.running.by_key(), trees.running
    pods = {name: by_key.get(running.key_of(current.index.by_id[name]), []) for name in concerned}
    evicted = list(evictions_of(reclaiming, pods, grant, now_s))
    if evicted:
        grant = replace(grant, evicting={**grant.evicting, **{pod.uid: now_s for _, pod in evicted}})
    events: list[Payload] = list(_evictions(tree, evicted, reclaiming, decision_of, now))
    wanted = wanted_grant(plan.ungranted, reclaiming, pods, grant, now_s) if grant.may_ask(now_s) else ()
    if wanted:
        request = f"{tree_key(tree)}-{current.stored.generation + 1}"
        grant = asked(grant, request, wanted, now_s)
        events.append(
            ReclaimRequested(
                id=request,
                tree=tree_key(tree),
                wanted=tuple(
                    WantedReclaim(claim=each.claim, order=each.order, evictions=_by_pool(tree, each, trees))
                    for each in wanted
                ),
                valid_seconds=VALID_S,
                requested_at=now,
            )
        )
    return grant, events


def _by_pool(tree: str, wanted: WantedGrant, trees: QuotaTrees) -> dict[str, int]:
    """What a reclaim costs each pool. A claim of which no pod is known costs each pool of its tree one eviction."""
    if not wanted.pods:
        return dict.fromkeys(trees.pools(tree, ()).values(), 1)
    pools, pods_by_pool = trees.pools(tree, {pod.node for pod in wanted.pods}), dict[str, int]()
    for pod in wanted.pods:
        pool = pools.get(pod.node, "")
        pods_by_pool[pool] = pods_by_pool.get(pool, 0) + 1
    return pods_by_pool


def _evictions(
    tree: str,
    evicted: Sequence[tuple[str, EvictablePod]],
    claims: Mapping[str, QuotaClaim],
    decision_of: Callable[[str], str],
    now: datetime,
) -> Sequence[EvictionRequested]:
    """One event per claim and node."""
    by_node: dict[tuple[str, str], list[EvictablePod]] = {}
    for claim, pod in evicted:
        by_node.setdefault((pod.node, claim), []).append(pod)
    events = []
    for (node, name), pods in sorted(by_node.items()):
        order = claims[name].reclaim
        if order is None:
            continue
        deadline = datetime.fromtimestamp(order.deadline_s, UTC)
        wanted_by = f"claim {order.for_claim} of {order.for_quota}" if order.for_claim else "the pool, which shrank"
        events.append(
            EvictionRequested(
                node=node,
                claim=name,
                quota=claims[name].quota,
                for_quota=order.for_quota,
                for_claim=order.for_claim,
                pods=tuple(_requested(tree, name, pod, order.since_s) for pod in pods),
                grace_seconds=max((deadline - now).total_seconds(), 0.0),
                deadline=now + BEGINS_WITHIN,
                reason=f"claim {name} of quota {claims[name].quota} has to end for {wanted_by}",
                decision_id=decision_of(name),
                requested_at=now,
            )
        )
    return events


def _requested(tree: str, claim: str, pod: EvictablePod, since_s: float) -> RequestedEviction:
    eviction = str(uuid.uuid5(_IDS, f"{tree}|{claim}|{pod.uid}|{since_s}"))
    return RequestedEviction(id=eviction, pod_uid=pod.uid, pod_name=pod.name)
