"""`slackwater secrets`: creates all secrets of a deployment once, in one folder per reader."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder; existing files are kept.")],
    node: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A node with an agent; repeatable.")] = None,
    nodes_file: Annotated[Path | None, typer.Option(help="File with node names, one per line.")] = None,
    fleet: Annotated[bool, typer.Option(help="Add a user for one process that simulates many nodes.")] = False,
    postgres_host: Annotated[
        str, typer.Option(metavar="HOST", help="PostgreSQL host as seen by the services.")
    ] = "postgres",
    nats_host: Annotated[list[str] | None, typer.Option(metavar="HOST", help="NATS host name; repeatable.")] = None,
    shared_volume: Annotated[
        bool, typer.Option(help="Make files readable by every account, for a volume with a folder per container.")
    ] = False,
    console_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Print the sign-in address with token.")
    ] = None,
) -> None:
    """Make passwords, tokens, certificates and the broker's accounts for docker compose or Kubernetes.

    Run it again at any time, also with new nodes: existing files are kept. The broker's configuration changes with a
    version of Slackwater, and never with a node.
    """
    from slackwater.cli.broker import names_of_nodes
    from slackwater.cli.output import errors_to_stderr, message
    from slackwater.cli.secret_files import Deployment, write_secrets

    with errors_to_stderr():
        deployment = Deployment(
            folder=folder,
            nodes=tuple(names_of_nodes(node, nodes_file)),
            fleet=fleet,
            postgres_host=postgres_host,
            nats_hosts=tuple(nats_host or ("nats",)),
            shared_volume=shared_volume,
        )
        admin_token = write_secrets(deployment)
        message(f"{folder}: secrets of {', '.join(sorted(path.name for path in folder.iterdir() if path.is_dir()))}")
        if console_url is not None:
            typer.echo(f"open {console_url.rstrip('/')}/?token={admin_token}")
