"""Handles node.deleted: drops the node's description. What is known of its workloads stays, and so does what was
published last, without which its last window would be predicted from once more.
"""

from __future__ import annotations

from slackwater.events.node_deleted import NodeDeleted
from slackwater.prediction.usecases.partition_store import LivingState


async def drop_node(living: LivingState, deleted: NodeDeleted) -> None:
    """A description after the deletion stays: the node is back. Its series end with its windows, as those of any silent
    node. Idempotent. Raises Unavailable, Fenced.
    """
    async with living.store.begin() as transaction:
        removed = await transaction.remove(deleted.node, deleted.deleted_at)
    if removed:
        living.nodes.pop(deleted.node, None)
