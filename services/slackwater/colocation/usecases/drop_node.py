"""Handles node.deleted: drops the node's state, and with it its offers from every sum."""

from __future__ import annotations

from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.events.envelope import Event
from slackwater.events.node_deleted import NodeDeleted
from slackwater.store.quarantine import Unreadable


async def drop_node(offering: Offering, consumer: str, event: Event[NodeDeleted]) -> bool:
    """Returns whether a state was dropped. One that was described after the deletion stays: the node is back.

    No offer is published, because that of a lost node is withdrawn already. Raises Unavailable, Fenced.
    """
    node = event.data.node
    if offering.quarantine.holds_node(node):
        offering.quarantine.left_out(NodeDeleted.TYPE)
        return False
    async with offering.store.begin() as transaction:
        if not await transaction.first_time(consumer, event.id):
            return False
        try:
            described = (await transaction.load(node)).described_by
        except Unreadable:
            return False
        if described is not None and described.at > event.data.deleted_at:
            return False
        await transaction.remove(node)
    return True
