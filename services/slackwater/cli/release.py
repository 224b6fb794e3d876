"""`slackwater release`: makes a service retry what it has quarantined."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.output import errors_to_stderr
from slackwater.cli.quarantine_columns import QUARANTINE, set_aside
from slackwater.model.errors import NotFound, Unavailable


def command(
    item: Annotated[str, typer.Argument(metavar="ID", help="as in `slackwater get quarantine`")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the effect, change nothing")] = False,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Release a quarantined row or node for a retry. If it fails again it returns under the same id.

    Needs the role operator if tokens are required.

    Example: `slackwater release 3f0c2a9be1d47a56`
    """
    from slackwater.cli.client import HttpReader, reading

    with errors_to_stderr():
        item_id = item.rpartition("/")[2]
        with reading(server) as reader:
            if not isinstance(reader, HttpReader):
                raise Unavailable("no instance is running; start it with `slackwater up`, then release the item")
            quarantined = next((row for row in set_aside(reader) if row["id"] == item_id), None)
            if quarantined is None:
                raise NotFound(f"quarantine item {item_id!r} is not known; `slackwater get quarantine` shows all")
            options = {"dryRun": "true" if dry_run else None}
            answer = reader.post(f"{QUARANTINE}/{quarantined['service']}/{item_id}/release", options)
        print(f"{quarantined['service']}/{item_id}: {answer['message']}")
