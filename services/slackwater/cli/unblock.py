"""`slackwater unblock`: makes services read the messages of a node's agent again."""

from __future__ import annotations

from slackwater.cli.block import DRY_RUN, NODE, SERVER, send


def command(node: NODE, dry_run: DRY_RUN = False, server: SERVER = None) -> None:
    """End the block of a node's agent. The node is live again after its next report; messages that were sent during the
    block are not read. Needs the role admin if tokens are required.

    Example: `slackwater unblock edge-7`
    """
    send("DELETE", node, None, dry_run=dry_run, server=server)
