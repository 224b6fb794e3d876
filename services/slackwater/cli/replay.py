"""`slackwater replay`: publishes a dead letter again."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.list_kinds import split_target
from slackwater.cli.output import errors_to_stderr
from slackwater.model.errors import InvalidInput, Unavailable


def command(
    what: Annotated[str, typer.Argument(metavar="deadletter/ID", help="as in `slackwater get deadletters`")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the effect, change nothing")] = False,
    again: Annotated[bool, typer.Option("--again", help="even if it was replayed before")] = False,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Publish a dead letter again to its original subject. Needs the role operator if tokens are required.

    Example: `slackwater replay deadletter/12 --dry-run`
    """
    from slackwater.cli.client import HttpReader, reading

    with errors_to_stderr():
        position = position_of(what)
        with reading(server) as reader:
            if not isinstance(reader, HttpReader):
                raise Unavailable("no instance is running; start it with `slackwater up`, then replay the dead letter")
            options = {"dryRun": "true" if dry_run else None, "again": "true" if again else None}
            answer = reader.post(f"/v1/deadletters/{position}/replay", options)
        print(f"deadletter/{position}: {answer['message']}")


def position_of(what: str) -> int:
    """The number in `deadletter/12`. Raises InvalidInput."""
    noun, number = split_target(what, None)
    if noun not in ("deadletter", "deadletters", "dl") or number is None or not number.isdecimal() or int(number) < 1:
        raise InvalidInput(f"{what!r} is not a dead letter; allowed: deadletter/ID with a number from 1", field="what")
    return int(number)
