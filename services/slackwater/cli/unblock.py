"""`slackwater unblock`: have services read again what the agent of a node sends."""

from __future__ import annotations

from slackwater.cli.block import DRY_RUN, NODE, SERVER, send


def command(node: NODE, dry_run: DRY_RUN = False, server: SERVER = None) -> None:
    """End the block of a node's agent. The node is back with its next report; what it sent meanwhile is not read. Needs
    the role admin where tokens are asked for.

    Example: `slackwater unblock edge-7`
    """
    send("DELETE", node, None, dry_run=dry_run, server=server)
