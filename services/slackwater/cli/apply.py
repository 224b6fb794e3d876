"""`slackwater apply -f`: policy documents to the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from slackwater.cli.dry_run import TryingCommand
from slackwater.cli.output import Format, errors_to_stderr, print_object

COMMAND = TryingCommand


def command(
    files: Annotated[list[Path], typer.Option("-f", "--filename", help="YAML with one or more documents; - is stdin")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="or --dry-run=server: the server checks and shows, and stores nothing")
    ] = False,
    nodes: Annotated[
        int, typer.Option("--nodes", min=0, max=10_000, help="with --dry-run: nodes shown, those that change most")
    ] = 20,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="json and yaml: what the server answered, whole")
    ] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Apply policy documents (NodeQOS, PodQOS, AvoidanceAction, Autonomy, PredictPolicy, ColocationStrategy). All are
    checked by the server before the first is stored. A dry run of a ColocationStrategy shows the offers of every node
    before and after.

    Example: `slackwater apply -f policy.yaml --dry-run=server`
    """
    from slackwater.cli.client import HttpReader, reading
    from slackwater.cli.documents import documents, put
    from slackwater.model.errors import InvalidInput

    with errors_to_stderr(), reading(server) as reader:
        if not isinstance(reader, HttpReader):
            raise InvalidInput("apply needs a running instance: start one with `slackwater up`")
        wanted = list(documents(files))
        shown = nodes if dry_run else None
        tried = [put(reader.client, document, dry_run=True, nodes=shown) for document in wanted]
        answers = []
        for document, trial in zip(wanted, tried, strict=True):
            store = trial["changes"] and not dry_run
            answers.append(put(reader.client, document, dry_run=False) if store else trial)
            if output in (Format.TABLE, Format.WIDE):
                print(f"{document.title} {_done(trial['changes'], dry_run=dry_run)}")
                print_offers(trial)
        if output not in (Format.TABLE, Format.WIDE):
            print_object(answers[0] if len(answers) == 1 else {"items": answers}, output)


def print_offers(trial: Mapping[str, Any]) -> None:
    """What nodes would offer, if the server said so."""
    from slackwater.cli.strategy_columns import tried_lines

    if trial.get("offers") is not None:
        for line in tried_lines(trial["offers"]):
            print(line)


def _done(changes: Sequence[Mapping[str, Any]], *, dry_run: bool) -> str:
    """In the words of the field."""
    if not changes:
        return "unchanged"
    is_new = any(change["field"] == "kind" for change in changes)
    return ("would be " if dry_run else "") + ("created" if is_new else "configured")
