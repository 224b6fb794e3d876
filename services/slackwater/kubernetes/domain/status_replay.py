"""The JSON from which a write to a node's status is planned again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slackwater.kubernetes.domain.status_plan import LentAmount, LentOffer, NodeStatusFacts, StatusPolicy, patch_of
from slackwater.model.bounds import EARLIEST

FUNCTION: Final = f"{__name__}:replay_patch"


def replay_arguments(facts: NodeStatusFacts, policy: StatusPolicy) -> dict[str, Any]:
    """The arguments of `replay_patch`."""
    return {"facts": _facts_json(facts), "policy": {"enabled": policy.enabled, "aliases": policy.aliases}}


def replay_patch(facts: Mapping[str, Any], policy: Mapping[str, Any]) -> int:
    """Plan the write of a record again; returns how many amounts change."""
    patch = patch_of(_facts_of(facts), StatusPolicy(policy["enabled"], policy["aliases"]))
    return 0 if patch is None else len(patch.changes)


def _facts_json(facts: NodeStatusFacts) -> dict[str, Any]:
    """What `patch_of` reads of them."""
    offer = facts.offer
    return {
        "node": facts.node,
        "uid": facts.uid,
        "in_status": dict(facts.in_status),
        "owned": sorted(facts.owned),
        "foreign": dict(facts.foreign),
        "residual": dict(facts.residual),
        "borrowed": dict(facts.borrowed),
        "lent": None if offer is None else {lent.subject: lent.amount for lent in offer.lent},
    }


def _facts_of(document: Mapping[str, Any]) -> NodeStatusFacts:
    lent = document["lent"]
    amounts = () if lent is None else tuple(LentAmount(subject, amount) for subject, amount in lent.items())
    return NodeStatusFacts(
        document["node"],
        document["uid"],
        document["in_status"],
        frozenset(document["owned"]),
        document["borrowed"],
        None if lent is None else LentOffer("", EARLIEST, amounts),
        foreign=document["foreign"],
        residual=document["residual"],
    )
