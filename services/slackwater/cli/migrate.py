"""`slackwater migrate`: creates roles and schemas and runs the migrations of every service, with an administrator's
address.
"""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.addresses import POSTGRES_VARIABLE


def command(
    postgres: Annotated[
        str | None, typer.Option(envvar=POSTGRES_VARIABLE, metavar="DSN", help="An administrator's address.")
    ] = None,
) -> None:
    """Create missing roles and schemas in PostgreSQL, so that each service needs only its role's address.

    Safe to repeat and to run while an older version works: one run at a time, all or nothing. A change that replicas of
    the older version cannot handle waits until they are replaced. A schema that a newer version has migrated is
    unchanged.
    """
    import asyncio

    from slackwater.cli.addresses import address
    from slackwater.cli.composition import IN_CLUSTERS, SHARED
    from slackwater.cli.output import errors_to_stderr, message
    from slackwater.store.migrations import Schema
    from slackwater.store.provision import prepare_database, revisions

    with errors_to_stderr():
        dsn = address(postgres, "--postgres", POSTGRES_VARIABLE)
        schemas = [Schema.of(part.name) for part in (*SHARED, *IN_CLUSTERS) if part.has_schema]
        asyncio.run(prepare_database(dsn, schemas))
        versions = asyncio.run(revisions(dsn, schemas))
        for schema in schemas:
            newer = "" if versions[schema.service] == schema.head() else f", newer than this version ({schema.head()})"
            message(f"{schema.service}: at {versions[schema.service]}{newer}")
