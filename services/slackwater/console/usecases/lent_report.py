"""How the offers are used: borrowed and beyond, the pods beyond the offer of their node, and why nothing is offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from slackwater.console.domain.fleet import FRESH, FleetLevel, is_fresh
from slackwater.console.domain.views import NodeView
from slackwater.console.ports import ReadQueries
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import BORROWING, BorrowerUse, lent_use, pods_beyond
from slackwater.offers.no_offer import NoOffer, no_offer_line, no_offer_reason

NAMED_NODES, NAMED_PODS = 8, 5
"""Nodes and pods of a node that are named."""


@dataclass(frozen=True, slots=True)
class NodeBeyond:
    """A node whose batch and free pods use more than its offer; `pods` names those that use most beyond their own
    requests, `more` counts the others.
    """

    node: str
    lent: Resources
    borrowed: Resources
    beyond: Resources
    pods: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True)
class LentReport:
    """Sums over the nodes with a fresh report. `exceeding` names the nodes that are furthest beyond their offers.

    If no CPU is offered, `no_offer` counts the nodes by reason and `why` says it in one line.
    """

    lent: Resources = field(default_factory=Resources)
    borrowed: Resources = field(default_factory=Resources)
    beyond: Resources = field(default_factory=Resources)
    exceeding: tuple[NodeBeyond, ...] = ()
    more_exceed: bool = False
    """Whether more nodes than those named are beyond their offers."""
    no_offer: dict[NoOffer, int] = field(default_factory=dict)
    why: str = ""


async def lent_report(reads: ReadQueries, now: datetime, level: FleetLevel | None = None) -> LentReport:
    """The report of now; `level` saves a read where it is known."""
    level = level or await reads.level(now, now - FRESH)
    nodes = await reads.nodes_beyond(now - FRESH, NAMED_NODES + 1) if level.beyond != Resources() else ()
    exceeding = [await _node_beyond(reads, node) for node in nodes[:NAMED_NODES]]
    reasons = [] if level.offered.cpu_milli else await _reasons(reads, now)
    counts = Counter(reason for reason in reasons if reason is not None)
    return LentReport(
        lent=level.offered,
        borrowed=level.borrowed,
        beyond=level.beyond,
        exceeding=tuple(exceeding),
        more_exceed=len(nodes) > NAMED_NODES,
        no_offer=dict(counts),
        why=no_offer_line(reasons),
    )


async def _node_beyond(reads: ReadQueries, node: NodeView) -> NodeBeyond:
    use = lent_use(node.offer.batch if node.offer else None, node.usage.tiers if node.usage else {})
    pods = [pod for pod in await reads.pods(node.name) if pod.tier in BORROWING]
    names = pods_beyond(use.beyond, [BorrowerUse(pod.name, pod.request, pod.usage) for pod in pods])
    shown = names[:NAMED_PODS]
    return NodeBeyond(node.name, use.lent, use.borrowed, use.beyond, shown, len(names) - len(shown))


async def _reasons(reads: ReadQueries, now: datetime) -> Sequence[NoOffer | None]:
    """The reason of each node. One record per combination of strategies says whether it disables colocation."""
    disabled: dict[tuple[str, ...], bool] = {}
    reasons = []
    for node in await reads.nodes():
        offer = node.offer
        off = False
        if offer is not None and offer.degraded is None and not offer.batch.cpu_milli:
            if offer.strategies not in disabled:
                disabled[offer.strategies] = await _is_disabled(reads, offer.decision_ids.get("batch-cpu"))
            off = disabled[offer.strategies]
        reasons.append(
            no_offer_reason(
                fresh=is_fresh(node, now),
                batch_milli=offer.batch.cpu_milli if offer else None,
                degraded=offer.degraded if offer else None,
                disabled=off,
            )
        )
    return reasons


async def _is_disabled(reads: ReadQueries, decision_id: str | None) -> bool:
    record = await reads.decision(decision_id) if decision_id else None
    return record is not None and any(term.name == "disabled" for term in record.terms)
