"""`slackwater apply -f`: policy documents to the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from slackwater.cli.output import errors_to_stderr


def command(
    files: Annotated[list[Path], typer.Option("-f", "--filename", help="YAML with one or more documents; - is stdin")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="the server checks and shows, and stores nothing")] = False,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Apply policy documents (NodeQOS, PodQOS, AvoidanceAction, Autonomy, PredictPolicy). All are checked by the
    server before the first is stored.

    Example: `slackwater apply -f policy.yaml --dry-run`
    """
    from slackwater.cli.client import HttpReader, reading
    from slackwater.cli.documents import documents, put
    from slackwater.model.errors import InvalidInput

    with errors_to_stderr(), reading(server) as reader:
        if not isinstance(reader, HttpReader):
            raise InvalidInput("apply needs a running instance: start one with `slackwater up`")
        wanted = list(documents(files))
        found = [put(reader.client, document, dry_run=True)["changes"] for document in wanted]
        for document, changes in zip(wanted, found, strict=True):
            if changes and not dry_run:
                put(reader.client, document, dry_run=False)
            print(f"{document.title} {_done(changes, dry_run=dry_run)}")


def _done(changes: Sequence[Mapping[str, Any]], *, dry_run: bool) -> str:
    """In the words of the field."""
    if not changes:
        return "unchanged"
    is_new = any(change["field"] == "kind" for change in changes)
    return ("would be " if dry_run else "") + ("created" if is_new else "configured")
