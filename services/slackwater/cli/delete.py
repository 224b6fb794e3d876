"""`slackwater delete -f`: remove policy documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.output import errors_to_stderr, message


def command(
    files: Annotated[list[Path], typer.Option("-f", "--filename", help="YAML with one or more documents; - is stdin")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="the server checks, and removes nothing")] = False,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Delete the policy documents that are named in files. A pool whose PredictPolicy is gone follows the cluster's
    again. All are checked by the server before the first is removed; one that is not there is no error.

    Example: `slackwater delete -f gold.yaml --dry-run`
    """
    from slackwater.cli.client import HttpReader, reading
    from slackwater.cli.documents import Document, delete, documents
    from slackwater.model.errors import InvalidInput, NotFound

    with errors_to_stderr(), reading(server) as reader:
        if not isinstance(reader, HttpReader):
            raise InvalidInput("delete needs a running instance: start one with `slackwater up`")
        there: list[Document] = []
        for document in list(documents(files)):
            try:
                delete(reader.client, document, dry_run=True)
                there.append(document)
            except NotFound:
                message(f"{document.title} is not there")
        for document in there:
            if not dry_run:
                delete(reader.client, document, dry_run=False)
            print(f"{document.title} {'would be deleted' if dry_run else 'deleted'}")
