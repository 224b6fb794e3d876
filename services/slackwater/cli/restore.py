"""`slackwater restore`: restores a backup into an empty database and an empty broker, and verifies its hash."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.addresses import NATS_VARIABLE, POSTGRES_VARIABLE


def command(
    folder: Annotated[Path, typer.Argument(help="Folder written by `slackwater backup`.")],
    newest: Annotated[bool, typer.Option("--newest", help="Use the newest dated backup below FOLDER.")] = False,
    postgres: Annotated[
        str | None, typer.Option(envvar=POSTGRES_VARIABLE, metavar="DSN", help="An administrator's address.")
    ] = None,
    nats: Annotated[
        str | None, typer.Option(envvar=NATS_VARIABLE, metavar="URL", help="NATS address, nats://host:4222.")
    ] = None,
) -> None:
    """Restore a backup: roles, schemas, rows, streams. The services must be stopped; start them afterwards."""
    import asyncio
    import time

    from slackwater.cli.addresses import address
    from slackwater.cli.copies import newest_below, restore_backup
    from slackwater.cli.output import errors_to_stderr, message
    from slackwater.cli.single_service import refuse_other_forms

    with errors_to_stderr():
        dsn = address(postgres, "--postgres", POSTGRES_VARIABLE)
        url = address(nats, "--nats", NATS_VARIABLE)
        refuse_other_forms(dsn, url)
        begun = time.monotonic()
        source = newest_below(folder) if newest else folder
        message(f"restoring {source}")
        manifest = asyncio.run(restore_backup(source, dsn, url, message))
        typer.echo(f"state hash {manifest.state_hash}, restored in {time.monotonic() - begun:.1f} s")
