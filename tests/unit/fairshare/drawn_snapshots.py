"""Snapshots drawn by hypothesis: a small tree, claims in all states, little of everything so that they contend."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from slackwater.fairshare.arbitration_plan import ArbitrationSettings, QuotaSnapshot
from slackwater.fairshare.claims import ClaimState, QuotaClaim, admit, start
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import ROOT, Amounts, Quota
from slackwater.model.tiers import Tier

RESOURCES = ("cpu", "memory")
LEAVES = ("a", "b", "p-c", "p-d")
PARENTS = {"a": ROOT, "b": ROOT, "p-c": "p", "p-d": "q", "q": "p", "p": ROOT}
NOW_S = 10_000.0

Sums = dict[str, dict[str, int]]


@st.composite
def quota_trees(draw: st.DrawFn) -> list[Quota]:
    """Leaves a and b below the root, c below p, d below q below p; mins fit into the parent's, maxes may exceed it, or
    name one resource alone."""
    found = []
    for name in LEAVES:
        named = draw(st.sampled_from([RESOURCES, RESOURCES, RESOURCES[:1], RESOURCES[1:]]))
        minimum = {key: draw(st.integers(0, 4)) for key in named}
        found.append(
            Quota(
                name=name,
                parent=PARENTS[name],
                minimum=minimum,
                maximum={key: minimum[key] + draw(st.integers(2, 12)) for key in named},
                weight={key: draw(st.integers(0, 3)) for key in RESOURCES} if draw(st.booleans()) else {},
                lends=draw(st.sampled_from([True, True, True, False])),
            )
        )
    for name in ("q", "p"):
        below = [quota for quota in found if quota.parent == name]
        more = draw(st.sampled_from([0, 0, 2]))
        minimum = {key: sum(quota.minimum.get(key, 0) for quota in below) + more for key in RESOURCES}
        maximum = {
            key: minimum[key] + draw(st.integers(2, 12))
            for key in RESOURCES
            if minimum[key] or draw(st.sampled_from([True, True, False]))
        }
        lends = draw(st.sampled_from([True, True, False]))
        found.append(Quota(name, PARENTS[name], minimum=minimum, maximum=maximum, is_parent=True, lends=lends))
    return found


@st.composite
def claims(draw: st.DrawFn, identity: str) -> QuotaClaim:
    """A queued claim; some are partial, some not preemptible."""
    request = {key: draw(st.integers(0, 4)) for key in RESOURCES[: draw(st.integers(1, 2))]}
    partial = draw(st.sampled_from([False, False, False, True]))
    return QuotaClaim(
        id=identity,
        quota=draw(st.sampled_from(LEAVES)),
        tier=Tier.BATCH,
        request=request,
        submitted_s=NOW_S - draw(st.integers(0, 1000)),
        priority=draw(st.integers(0, 3)),
        non_preemptible=draw(st.sampled_from([False] * 5 + [True])),
        partial_minimum={key: amount // 2 for key, amount in request.items()} if partial else None,
        grace_s=draw(st.sampled_from([0.0, 30.0])),
    )


settings_drawn = st.builds(
    ArbitrationSettings,
    queue_policy=st.sampled_from(QueuePolicy),
    aging_s=st.sampled_from([None, 0.0, 60.0]),
    starvation_s=st.sampled_from([0.0, 600.0]),
    drain_s=st.sampled_from([0.0, 86_400.0]),
    reclaim_delay_s=st.sampled_from([0.0, 120.0]),
    preempts=st.booleans(),
)


@st.composite
def snapshots(draw: st.DrawFn, most: int = 12) -> QuotaSnapshot:
    """Claims that hold never exceed a max; they may exceed the totals, because a pool shrinks."""
    quotas = draw(quota_trees())
    found: list[QuotaClaim] = []
    for number in range(draw(st.integers(3, most))):
        claim = draw(claims(f"claim-{number}"))
        if draw(st.booleans()):
            held = admit(claim, claim.request, NOW_S - draw(st.integers(0, 500)))
            held = start(held, NOW_S) if draw(st.booleans()) else held
            if not broken_maximums(quotas, [*found, held]):
                found.append(held)
                continue
        found.append(claim)
    return QuotaSnapshot(
        quotas=quotas,
        totals={"": {key: draw(st.integers(4, 20)) for key in RESOURCES}},
        claims=found,
        settings=draw(settings_drawn),
        queue_policies=draw(st.dictionaries(st.sampled_from(LEAVES), st.sampled_from(QueuePolicy), max_size=2)),
        over_since_s={leaf: NOW_S - draw(st.sampled_from([10, 500])) for leaf in LEAVES},
        evictions_allowed=draw(st.sampled_from([{}, {}, {"": 0}, {"": 2}])),
    )


def used(quotas: Iterable[Quota], claims: Iterable[QuotaClaim]) -> Sums:
    """Returns the use of every quota and of the root, added up without the library."""
    parents = {quota.name: quota.parent for quota in quotas}
    sums: Sums = {name: dict.fromkeys(RESOURCES, 0) for name in (ROOT, *parents)}
    for claim in claims:
        name = claim.quota
        while True:
            for resource, amount in claim.holds.items():
                sums[name][resource] += amount
            if name == ROOT:
                break
            name = parents[name]
    return sums


def broken_maximums(quotas: Iterable[Quota], claims: Iterable[QuotaClaim]) -> list[tuple[str, str]]:
    """Returns (quota, resource) where more is used than the max."""
    quotas = list(quotas)
    sums = used(quotas, claims)
    return [
        (quota.name, resource)
        for quota in quotas
        for resource, most in quota.maximum.items()
        if sums[quota.name][resource] > most
    ]


def fits(
    quotas: Iterable[Quota], total: Amounts, claims: Iterable[QuotaClaim], claim: QuotaClaim, *, unlent: bool = True
) -> bool:
    """Returns whether a claim fits beside these into each max on its path, its min if needed, and the total.

    `unlent`: what other quotas do not lend of their min is not free, neither in the total nor in a max above them.
    """
    quotas, held = list(quotas), list(claims)
    sums, bound = used(quotas, held), used(quotas, [each for each in held if each.non_preemptible])
    path = path_of(quotas, claim.quota)
    requested = {resource: amount for resource, amount in claim.request.items() if amount > 0}
    kept = unlent_mins(quotas, path, sums) if unlent else dict.fromkeys(RESOURCES, 0)
    if any(sums[ROOT][key] + kept[key] + amount > total.get(key, 0) for key, amount in requested.items()):
        return False
    below = {
        quota.name: unlent_mins([each for each in quotas if quota in path_of(quotas, each.name)], path, sums)
        for quota in path
        if unlent
    }
    return all(
        sums[quota.name][key] + below.get(quota.name, {}).get(key, 0) + amount <= quota.maximum.get(key, 10**9)
        and (not claim.non_preemptible or bound[quota.name][key] + amount <= quota.minimum.get(key, 0))
        for quota in path
        for key, amount in requested.items()
    )


def path_of(quotas: Iterable[Quota], name: str) -> list[Quota]:
    by_name = {quota.name: quota for quota in quotas}
    found = []
    while name != ROOT:
        found.append(by_name[name])
        name = by_name[name].parent
    return found


def unlent_mins(quotas: Iterable[Quota], path: list[Quota], sums: Sums) -> dict[str, int]:
    """Returns what quotas beside the path keep of their mins. An upper bound: scaled mins are smaller."""
    kept = dict.fromkeys(RESOURCES, 0)
    for quota in quotas:
        if not quota.lends and quota not in path:
            for resource, amount in quota.minimum.items():
                kept[resource] += max(amount - sums[quota.name][resource], 0)
    return kept


def queued(claims: Iterable[QuotaClaim]) -> list[QuotaClaim]:
    return [claim for claim in claims if claim.state is ClaimState.QUEUED]
