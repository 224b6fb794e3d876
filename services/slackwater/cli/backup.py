"""`slackwater backup`: copies the rows of every service, and the streams with their positions, into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.addresses import NATS_VARIABLE, POSTGRES_VARIABLE


def command(
    folder: Annotated[Path, typer.Argument(help="A new folder; an existing backup is never overwritten.")],
    dated: Annotated[bool, typer.Option("--dated", help="Create it below FOLDER, named by the time.")] = False,
    keep: Annotated[int | None, typer.Option(min=1, help="With --dated: keep this many, remove older ones.")] = None,
    postgres: Annotated[
        str | None, typer.Option(envvar=POSTGRES_VARIABLE, metavar="DSN", help="An administrator's address.")
    ] = None,
    nats: Annotated[
        str | None, typer.Option(envvar=NATS_VARIABLE, metavar="URL", help="NATS address, nats://host:4222.")
    ] = None,
) -> None:
    """Copy the database and the streams while everything runs, and print their hash.

    Without addresses: those of the `slackwater up` that runs in this state directory.
    """
    import asyncio

    from slackwater.cli.addresses import addresses_or_here
    from slackwater.cli.copies import create_backup, dated_folder, delete_oldest
    from slackwater.cli.output import errors_to_stderr, message
    from slackwater.cli.single_service import refuse_other_forms
    from slackwater.model.errors import InvalidInput
    from slackwater.model.time import SystemClock

    with errors_to_stderr():
        if keep is not None and not dated:
            raise InvalidInput("--keep: is allowed only with --dated; add --dated or leave it out", field="keep")
        dsn, url = addresses_or_here(postgres, nats)
        refuse_other_forms(dsn, url)
        now = SystemClock().now()
        target = dated_folder(folder, now) if dated else folder
        manifest = asyncio.run(create_backup(target, dsn, url, now.isoformat(), message))
        if keep is not None:
            delete_oldest(folder, keep, message)
        typer.echo(f"state hash {manifest.state_hash}")
