"""`slackwater block`: makes every service ignore the agent of a node."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.complete import complete_node
from slackwater.cli.output import errors_to_stderr, message

NODE = Annotated[
    str,
    typer.Argument(metavar="NODE", help="the agent's node, as in `slackwater get nodes`", autocompletion=complete_node),
]
DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="validate and show the effect, change nothing")]
SERVER = Annotated[
    str | None, typer.Option("--server", help="URL of a process with ingestion; default: the instance here")
]


def command(
    node: NODE,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="reason in one line, shown with the block")],
    dry_run: DRY_RUN = False,
    server: SERVER = None,
) -> None:
    """Block the agent of a node: services acknowledge its messages without reading them, at once and until `slackwater
    unblock`. A broker with signed credentials ends its connections within seconds, and it gets no others until then.
    The node counts as silent: it is soon lost, and its offers are withdrawn. Needs the role admin where
    tokens are required.

    Example: `slackwater block edge-7 --reason "sends poison since 12:04"`
    """
    send("PUT", node, {"reason": reason}, dry_run=dry_run, server=server)


def send(method: str, node: str, body: object, *, dry_run: bool, server: str | None) -> None:
    """Change the block of a node's agent, and print the server's answer."""
    from urllib.parse import quote

    from slackwater.cli.client import HttpReader, reading
    from slackwater.model.errors import Unavailable

    with errors_to_stderr(), reading(server) as reader:
        if not isinstance(reader, HttpReader):
            raise Unavailable("no instance is running: start it with `slackwater up`, or name one with --server")
        path = f"/v1/nodes/{quote(node, safe='')}/block"
        answer = reader.send(method, path, {"dryRun": "true" if dry_run else None}, body)
        print(answer["message"])
        if not answer["is_node_known"]:
            message(f"{node!r} has never described itself or reported; `slackwater get nodes` shows the known names")
