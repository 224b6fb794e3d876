"""`slackwater delete`: removes policy documents, and nodes that are gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.apply import print_preview
from slackwater.cli.complete import complete_name, complete_noun
from slackwater.cli.dry_run import TryingCommand
from slackwater.cli.list_kinds import kind_of
from slackwater.cli.output import errors_to_stderr, message
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.resources import catalog

if TYPE_CHECKING:
    from slackwater.cli.client import HttpReader
    from slackwater.cli.documents import PolicyDocument

COMMAND = TryingCommand
NODES = "nodes"


def command(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[KIND[/NAME]]", help="node, or a resource kind", autocompletion=complete_noun),
    ] = None,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="objects to delete", autocompletion=complete_name)
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Option("-f", "--filename", help="YAML with one or more documents; - is stdin")
    ] = None,
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
    """Delete nodes that are gone, or resources by name or as files name them.

    A node has to be lost: its offers, lists and alerts end at once; its decisions can still be explained, and it comes
    back when it reports. --server is then a process with ingestion. A missing document of a file is not an error. The
    server validates all requests before it removes the first. A pool whose PredictPolicy or ColocationStrategy is
    deleted follows the cluster's again.

    Examples: `slackwater delete node edge-7 edge-8`, `slackwater delete colocationstrategy gold --dry-run`,
    `slackwater delete -f gold.yaml --dry-run`
    """
    from slackwater.cli.client import HttpReader, reading

    with errors_to_stderr():
        requested = targets(what, names or (), files or ())
        with reading(server) as reader:
            if not isinstance(reader, HttpReader):
                raise InvalidInput("delete needs a running instance: start one with `slackwater up`")
            deleted = _documents(requested, files or ())
            _delete_nodes(reader, [name for kind, name in requested or () if kind == NODES], dry_run=dry_run)
            _delete_documents(reader, deleted, dry_run=dry_run, nodes=nodes)


def targets(what: str | None, names: Sequence[str], files: Sequence[Path]) -> Sequence[tuple[str, str]] | None:
    """The plurals of the kinds with the names; None for files. Further names may say their kind: `KIND/A KIND/B`.

    Raises InvalidInput unless it is one of both, and for a kind that cannot be deleted.
    """
    if (what is None) is not bool(files):
        raise InvalidInput(
            "name what to delete: `slackwater delete node NAME`, or files with -f; not both", field="filename"
        )
    if what is None:
        return None
    noun, _, name = what.partition("/")
    chosen = [(noun, name)] if name else []
    for each in names:
        other, slash, own = each.partition("/")
        chosen.append((other, own) if slash else (noun, each))
    found = [(_plural(kind), name) for kind, name in chosen]
    if not found:
        raise InvalidInput(f"name the {_plural(noun)} to delete: `slackwater delete {what} NAME`", field="name")
    return found


def _plural(noun: str) -> str:
    plural = kind_of(noun).names[0]
    allowed = [kind.names[0] for kind in catalog.KINDS]
    if plural != NODES and plural not in allowed:
        raise InvalidInput(f"{plural} cannot be deleted; allowed: {', '.join([NODES, *allowed])}", field="kind")
    return plural


def _delete_nodes(reader: HttpReader, names: Sequence[str], *, dry_run: bool) -> None:
    """Stops at the first that cannot be deleted."""
    from urllib.parse import quote

    for name in names:
        path = f"/v1/nodes/{quote(name, safe='')}"
        print(reader.send("DELETE", path, {"dryRun": "true" if dry_run else None})["message"], flush=True)


def _documents(
    requested: Sequence[tuple[str, str]] | None, files: Sequence[Path]
) -> Sequence[tuple[bool, PolicyDocument]]:
    """Documents with whether it is an error that one is missing."""
    from slackwater.cli.documents import PolicyDocument, documents

    if requested is None:
        return [(False, document) for document in documents(list(files))]
    kinds = {kind.names[0]: kind for kind in catalog.KINDS}
    documents_named = [(kinds[plural], name) for plural, name in requested if plural != NODES]
    return [(True, PolicyDocument(f"{kind.noun}/{name}", kind, name, {})) for kind, name in documents_named]


def _delete_documents(
    reader: HttpReader, wanted: Sequence[tuple[bool, PolicyDocument]], *, dry_run: bool, nodes: int
) -> None:
    from slackwater.cli.documents import delete

    there: list[tuple[PolicyDocument, Any]] = []
    shown = nodes if dry_run else None
    for is_needed, document in wanted:
        try:
            there.append((document, delete(reader.transport, document, dry_run=True, nodes=shown)))
        except NotFound:
            if is_needed:
                raise
            message(f"{document.title} does not exist")
    for document, trial in there:
        if not dry_run:
            delete(reader.transport, document, dry_run=False)
        print(f"{document.title} {'would be deleted' if dry_run else 'deleted'}")
        if dry_run:
            print_preview(document.kind, trial)
