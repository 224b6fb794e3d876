"""`slackwater release`: makes a service retry what it has quarantined."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.output import errors_to_stderr
from slackwater.cli.quarantine_columns import QUARANTINE, set_aside
from slackwater.model.errors import NotFound, Unavailable


def command(
    item: Annotated[str, typer.Argument(metavar="ID", help="as in `slackwater get quarantine`")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show the effect")] = False,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Release a quarantined row or node; what still fails returns under the same id. Needs the role operator where
    tokens are required.

    Example: `slackwater release 3f0c2a9be1d47a56`
    """
    from slackwater.cli.client import HttpReader, reading

    with errors_to_stderr():
        wanted = item.rpartition("/")[2]
        with reading(server) as reader:
            if not isinstance(reader, HttpReader):
                raise Unavailable("no instance is running: nothing can be released; start it with `slackwater up`")
            found = next((one for one in set_aside(reader) if one["id"] == wanted), None)
            if found is None:
                raise NotFound(f"quarantine item {wanted!r} is not known; `slackwater get quarantine` shows all")
            options = {"dryRun": "true" if dry_run else None}
            answer = reader.post(f"{QUARANTINE}/{found['service']}/{wanted}/release", options)
        print(f"{found['service']}/{wanted}: {answer['message']}")
