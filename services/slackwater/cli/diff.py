"""`slackwater diff -f`: what applying documents would change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.exits import FINDINGS
from slackwater.cli.output import errors_to_stderr


def command(
    files: Annotated[list[Path], typer.Option("-f", "--filename", help="YAML with one or more documents; - is stdin")],
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Show field by field what `apply` would change. Exit status: 3 if there are changes, 0 if there are none.

    Example: `slackwater diff -f policy.yaml`
    """
    from slackwater.cli.client import HttpReader, reading
    from slackwater.cli.documents import documents, dry_run_all
    from slackwater.model.errors import InvalidInput

    with errors_to_stderr(), reading(server) as reader:
        if not isinstance(reader, HttpReader):
            raise InvalidInput("diff needs a running instance: start one with `slackwater up`")
        differs = False
        requested = list(documents(files))
        for document, trial in zip(requested, dry_run_all(reader.transport, requested).answers, strict=True):
            for change in trial["changes"]:
                differs = True
                before, after = json.dumps(change.get("before")), json.dumps(change.get("after"))
                print(f"{document.title} {change['field']}: {before} -> {after}")
        if differs:
            raise typer.Exit(FINDINGS)
