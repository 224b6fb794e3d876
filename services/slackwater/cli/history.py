"""`slackwater history KIND NAME`: the kept generations of a resource, and what each changed."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.complete import complete_name, complete_noun
from slackwater.cli.list_kinds import split_target
from slackwater.cli.output import (
    UNKNOWN,
    Format,
    Item,
    TableColumn,
    clock_time,
    errors_to_stderr,
    message,
    print_object,
    table,
)
from slackwater.model.errors import InvalidInput
from slackwater.resources import catalog


def _change(item: Item) -> str:
    from slackwater.resources.history import change_text  # imports pydantic

    return change_text(item)


COLUMNS = (
    TableColumn("GENERATION", lambda item: str(item["generation"]), right=True),
    TableColumn("TIME", lambda item: clock_time(item["changed_at"])),
    TableColumn("AUTHOR", lambda item: str(item["author"] or UNKNOWN)),
    TableColumn("CHANGE", _change),
)


def complete_kind(begun: str) -> list[str]:
    """The resource kinds that begin so, for the completion of a shell; after a `/`, the kind's names."""
    if "/" in begun:
        return complete_noun(begun)
    return [kind.plural for kind in catalog.KINDS if kind.plural.startswith(begun.lower())]


def command(
    what: Annotated[
        str,
        typer.Argument(metavar="KIND[/NAME]", help="a resource kind, and its name", autocompletion=complete_kind),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="which one; or KIND/NAME", autocompletion=complete_name)
    ] = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="json and yaml: with the document of every generation")
    ] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Show the last 20 generations of a resource, the newest first: when, by which author, and which fields changed. A
    deleted resource keeps its history.

    Example: `slackwater history predictpolicy gold`
    """
    from urllib.parse import quote

    from slackwater.cli.client import reading

    with errors_to_stderr():
        noun, only = split_target(what, name)
        kind = next((kind for kind in catalog.KINDS if noun.lower() in kind.names), None)
        if kind is None:
            allowed = ", ".join(kind.plural for kind in catalog.KINDS)
            raise InvalidInput(f"{noun!r} is not a resource kind; allowed: {allowed}")
        if not only:
            raise InvalidInput(f"{what!r}: which one? like `slackwater history {noun} NAME`")
        with reading(server) as reader:
            if not reader.live:
                raise InvalidInput("history needs a running instance: start one with `slackwater up`")
            answer = reader.get(f"{kind.path}/{quote(only, safe='')}/history")
        if output in (Format.JSON, Format.YAML):
            print_object(answer, output)
            return
        if not answer["items"]:
            message(f"no generation of {kind.noun}/{only} is kept")
        for line in table(answer["items"], COLUMNS, wide=output is Format.WIDE, headers=bool(answer["items"])):
            print(line)
