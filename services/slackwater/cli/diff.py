"""`slackwater diff -f`: what applying documents would change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from slackwater.cli.exits import FINDINGS
from slackwater.cli.output import errors_to_stderr

_NAMED = frozenset({"apiVersion", "kind", "metadata.name"})
"""Fields that the title of a line has already."""


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
            lines = list(change_lines(trial["changes"]))
            differs = differs or bool(lines)
            for line in lines:
                print(f"{document.title} {line}")
        if differs:
            raise typer.Exit(FINDINGS)


def change_lines(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A field a line; of a document that is not there yet, that it would be created, and the fields with a value."""
    is_new = any(change["field"] == "kind" and change.get("before") is None for change in changes)
    if is_new:
        yield "would be created"
    for change in changes:
        before, after = change.get("before"), change.get("after")
        if not is_new:
            yield f"{change['field']}: {json.dumps(before)} -> {json.dumps(after)}"
        elif after is not None and change["field"] not in _NAMED:
            yield f"{change['field']}: {json.dumps(after)}"
