"""Runs Alembic programmatically: one linear history per service in the service's own schema.

A version file is `migrations/versions/<revision>_<words>.py` of the service's package, with a
four-digit ascending `revision`. The head is therefore known from the file names, and a start at
head does not load Alembic. Migrations run as the service's role, so that it owns the objects they
create.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.pool import NullPool

from slackwater.model.errors import Misconfigured
from slackwater.store.driver_errors import connecting
from slackwater.store.names import lock_key, schema_of
from slackwater.store.sessions import engine_of, session_of
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = get_logger(__name__)

VERSION_TABLE = "alembic_version"
_ONE_AT_A_TIME = lock_key("migrations", "")  # for all schemas: Alembic's `op` belongs to one migration per process
_VERSION_FILE = re.compile(r"(\d{4})_\w+\.py")


@dataclass(frozen=True, slots=True)
class Schema:
    """A service's schema and the folder of its versions."""

    service: str
    versions: Path

    @classmethod
    def of(cls, service: str) -> Schema:
        """Returns the schema of the package `slackwater.<service>`. Raises Misconfigured when it
        has no migrations.
        """
        folder = resources.files(f"slackwater.{schema_of(service)}") / "migrations" / "versions"
        path = Path(str(folder))
        if not path.is_dir():
            raise Misconfigured(f"service {service} has no migrations in {path}")
        return cls(service, path)

    def head(self) -> str:
        """Returns the newest revision. Raises Misconfigured for an empty folder or a number used
        twice.
        """
        revisions = sorted(
            match[1] for path in self.versions.iterdir() if (match := _VERSION_FILE.fullmatch(path.name))
        )
        if not revisions or len(set(revisions)) != len(revisions):
            raise Misconfigured(
                f"{self.versions}: needs files NNNN_words.py with each NNNN used once; found {revisions}"
            )
        return revisions[-1]

    def is_behind(self, revision: str | None) -> bool:
        """Returns whether a schema at this revision lacks a migration of this version. A newer
        schema does not: a rolling update may restart an old replica, and work it cannot do waits.
        """
        if revision is not None and revision > self.head():
            log.warning("the schema is newer than this version", service=self.service, at=revision, knows=self.head())
            return False
        return revision != self.head()


async def migrate(dsn: str, schema: Schema) -> str:
    """Migrate one schema to its head, if it is behind; returns the head. Concurrent migrations in
    this database wait.

    `dsn` is the service's own. Raises Unavailable.
    """
    settings = {"search_path": schema_of(schema.service), "application_name": f"slackwater-{schema.service}-migrations"}
    engine = engine_of(dsn, timeout_seconds=5, settings=settings, poolclass=NullPool)
    try:
        with connecting():
            async with session_of(engine) as connection, connection.begin():
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ONE_AT_A_TIME})
                await connection.run_sync(_upgrade, schema)
    finally:
        await engine.dispose()
    return schema.head()


def _upgrade(connection: Connection, schema: Schema) -> None:
    """Apply all missing versions in the transaction that holds the lock: a failure leaves the
    schema unchanged.
    """
    from alembic.config import Config  # loaded only when there is something to do
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(schema.versions.parent), version_locations=[str(schema.versions)])

    def steps(current: tuple[str, ...], _: object) -> object:
        if not schema.is_behind(max(current, default=None)):
            return []
        return script._upgrade_revs("head", current)  # type: ignore[arg-type] # Alembic's own recipe

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(
            connection=connection, version_table=VERSION_TABLE, version_table_schema=schema_of(schema.service)
        )
        with environment.begin_transaction():
            environment.run_migrations()
