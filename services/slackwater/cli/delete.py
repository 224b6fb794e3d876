"""`slackwater delete -f`: remove policy documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slackwater.cli.apply import print_offers
from slackwater.cli.dry_run import TryingCommand
from slackwater.cli.output import errors_to_stderr, message

COMMAND = TryingCommand


def command(
    files: Annotated[list[Path], typer.Option("-f", "--filename", help="YAML with one or more documents; - is stdin")],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="or --dry-run=server: the server validates and shows the result, and removes nothing"
        ),
    ] = False,
    nodes: Annotated[
        int,
        typer.Option("--nodes", min=0, max=10_000, help="with --dry-run: number of nodes shown, largest changes first"),
    ] = 20,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Delete the documents that files name. A missing document is not an error.

    The server validates all requests before it removes the first. A pool whose PredictPolicy or ColocationStrategy is
    deleted follows the cluster's again.

    Example: `slackwater delete -f gold.yaml --dry-run`
    """
    from slackwater.cli.client import HttpReader, reading
    from slackwater.cli.documents import PolicyDocument, delete, documents
    from slackwater.model.errors import InvalidInput, NotFound

    with errors_to_stderr(), reading(server) as reader:
        if not isinstance(reader, HttpReader):
            raise InvalidInput("delete needs a running instance: start one with `slackwater up`")
        there: list[tuple[PolicyDocument, Any]] = []
        shown = nodes if dry_run else None
        for document in list(documents(files)):
            try:
                there.append((document, delete(reader.client, document, dry_run=True, nodes=shown)))
            except NotFound:
                message(f"{document.title} does not exist")
        for document, trial in there:
            if not dry_run:
                delete(reader.client, document, dry_run=False)
            print(f"{document.title} {'would be deleted' if dry_run else 'deleted'}")
            print_offers(trial)
