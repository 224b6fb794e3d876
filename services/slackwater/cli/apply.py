"""`slackwater apply -f`: policy documents to the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.dry_run import TryingCommand
from slackwater.cli.output import Format, errors_to_stderr, print_object

if TYPE_CHECKING:
    from slackwater.cli.documents import DryRun, PolicyDocument
    from slackwater.client.transport import Transport
    from slackwater.resources.kind import Kind

COMMAND = TryingCommand


def command(
    files: Annotated[
        list[Path] | None, typer.Option("-f", "--filename", help="YAML with one or more documents; - is stdin")
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="PLAN_ID", help="propose the moves of a plan of `slackwater plan`, once"),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="or --dry-run=server: the server validates and shows the result, and stores nothing"
        ),
    ] = False,
    nodes: Annotated[
        int,
        typer.Option("--nodes", min=0, max=10_000, help="with --dry-run: number of nodes shown, largest changes first"),
    ] = 20,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="json and yaml: the complete answer of the server")
    ] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Apply resources of any kind (docs/reference/resources.md).

    The server validates all documents before it stores the first. Several ColocationStrategies are stored all or none;
    their dry run shows the offers of every node before and after. So are several ElasticQuotas.

    A plan is refused if the cluster, or its profile, is no longer what it assumed; the error says what changed.

    Examples: `slackwater apply -f policy.yaml --dry-run=server`, `slackwater apply --plan PLAN_ID`
    """
    from slackwater.cli.applied_plan import applied_lines, apply_plan
    from slackwater.cli.client import HttpReader, reading
    from slackwater.model.errors import InvalidInput

    with errors_to_stderr(), reading(server) as reader:
        if bool(files) == (plan is not None):
            raise InvalidInput("give -f FILE, or --plan PLAN_ID")
        if not isinstance(reader, HttpReader):
            raise InvalidInput("apply needs a running instance: start one with `slackwater up`")
        if plan is not None:
            answer = apply_plan(reader, plan, dry_run=dry_run)
            if output in (Format.TABLE, Format.WIDE):
                print("\n".join(applied_lines(answer, dry_run=dry_run)))
            else:
                print_object(answer, output)
            return
        answer = _apply_documents(reader.transport, files or [], output, nodes=nodes if dry_run else None)
        if output not in (Format.TABLE, Format.WIDE):
            print_object(answer, output)


def _apply_documents(transport: Transport, files: list[Path], output: Format, *, nodes: int | None) -> Any:
    """Store all documents, or try them (`nodes`: how many of the preview are shown); prints what was done with each.
    Returns the complete answer."""
    from slackwater.cli.documents import documents, dry_run_all

    dry_run = nodes is not None
    requested = list(documents(files))
    tried = dry_run_all(transport, requested, nodes=nodes)
    answers = list(tried.answers)
    for place, document in enumerate(requested):
        if not dry_run:
            _store(transport, place, requested, tried, answers)
        if output in (Format.TABLE, Format.WIDE):
            print(f"{document.title} {_done(tried.answers[place]['changes'], dry_run=dry_run)}")
            if dry_run:
                print_preview(document.kind, tried.answers[place])
    if output in (Format.TABLE, Format.WIDE):
        for group in tried.groups.values() if dry_run else ():
            print_preview(group[0].kind, tried.preview)
    whole = {"items": answers, **(tried.preview if dry_run else {})}
    return answers[0] if len(answers) == 1 else whole


def _store(
    transport: Transport, place: int, requested: Sequence[PolicyDocument], tried: DryRun, answers: list[Any]
) -> None:
    """Store the document if it changes something, in one request with all documents that are stored together with it.

    The server's answer replaces the dry run's in `answers`.
    """
    from slackwater.cli.documents import put, put_together

    if not tried.answers[place]["changes"] or answers[place] is not tried.answers[place]:
        return
    group = tried.group_of(requested[place])
    if not group:
        answers[place] = put(transport, requested[place], dry_run=False)
        return
    places = [each for each, one in enumerate(requested) if one in group and tried.answers[each]["changes"]]
    stored = put_together(transport, [requested[place] for place in places], dry_run=False)["items"]
    for each, answer in zip(places, stored, strict=True):
        answers[each] = answer


def print_preview(kind: Kind, trial: Mapping[str, Any]) -> None:
    """Print what a change would lead to, if the answer has it."""
    from slackwater.cli.quota_columns import tried_lines as runtime_lines
    from slackwater.cli.strategy_columns import tried_lines as offer_lines
    from slackwater.resources.kinds.colocation_strategy import COLOCATION_STRATEGY
    from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA

    lines = {COLOCATION_STRATEGY.name: offer_lines, ELASTIC_QUOTA.name: runtime_lines}
    if kind.preview is not None and trial.get(kind.preview.field) is not None:
        for line in lines[kind.name](trial[kind.preview.field]):
            print(line)


def _done(changes: Sequence[Mapping[str, Any]], *, dry_run: bool) -> str:
    """The result in kubectl's words: created, configured or unchanged."""
    if not changes:
        return "unchanged"
    is_new = any(change["field"] == "kind" for change in changes)
    return ("would be " if dry_run else "") + ("created" if is_new else "configured")
