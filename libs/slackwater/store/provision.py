"""Creates database, roles and schemas and runs migrations, from an administrator's address. A
repeated run is fast.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

from slackwater.model.errors import Misconfigured
from slackwater.store.driver_errors import connecting
from slackwater.store.migrations import VERSION_TABLE, Schema, migrate
from slackwater.store.names import lock_key, role_of, role_password, schema_of, service_dsn

_MAINTENANCE_DATABASE = "/postgres"

_STATE = """
SELECT wanted.role, shobj_description(r.oid, 'pg_authid') AS mark, n.oid IS NOT NULL AS has_schema,
       to_regclass(wanted.schema || '.' || $3) IS NOT NULL AS migrated
FROM unnest($1::text[], $2::text[]) AS wanted(schema, role)
LEFT JOIN pg_roles r ON r.rolname = wanted.role
LEFT JOIN pg_namespace n ON n.nspname = wanted.schema
"""

_MAY = """
SELECT current_user AS role, rolsuper OR rolcreaterole AS administrator,
       EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = $1 AND n.nspowner = r.oid) AS owns
FROM pg_roles r WHERE rolname = current_user
"""


async def prepare_database(admin_dsn: str, schemas: Sequence[Schema]) -> dict[str, str]:
    """Create what is missing and migrate what is behind; returns the address of each service.

    The administrator needs CREATEROLE and CREATE on the database (a superuser has both). Raises
    Unavailable.
    """
    addresses = {schema.service: service_dsn(admin_dsn, schema.service) for schema in schemas}
    with connecting():
        connection = await _connect(admin_dsn)
        try:
            behind = await _provision(connection, admin_dsn, schemas)
        finally:
            await connection.close()
    for schema in behind:
        await migrate(addresses[schema.service], schema)
    return addresses


async def revisions(admin_dsn: str, schemas: Sequence[Schema]) -> dict[str, str]:
    """Returns the revision of each schema, which may be newer than this version knows. Raises
    Unavailable.
    """
    with connecting():
        connection = await _connect(admin_dsn)
        try:
            return await _revisions(connection, schemas)
        finally:
            await connection.close()


async def prepare_roles(admin_dsn: str, services: Sequence[str]) -> dict[str, str]:
    """Create role and empty schema of each service, for a restore; returns their addresses. Raises
    Unavailable.
    """
    with connecting():
        connection = await _connect(admin_dsn)
        try:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", lock_key("provision", ""))
                await connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
                for service in services:
                    await _make(connection, admin_dsn, service)
        finally:
            await connection.close()
    return {service: service_dsn(admin_dsn, service) for service in services}


async def prepare_service(dsn: str, schema: Schema) -> str:
    """Returns the address for one service, with its schema migrated to head.

    `dsn` is either an administrator's (role and schema are created) or the service's own role's
    (role and schema exist, and only migrations run). Raises Unavailable; Misconfigured for a role
    that is neither.
    """
    with connecting():
        try:
            connection = await _connect(dsn)
        except asyncpg.InvalidAuthorizationSpecificationError as error:  # a wrong password too
            text = f"PostgreSQL refuses the login: {error}; correct user and password of the DSN"
            raise Misconfigured(text) from None
        try:
            row = await connection.fetchrow(_MAY, schema_of(schema.service))
        finally:
            await connection.close()
    assert row is not None  # noqa: S101 - the session's role exists
    if row["administrator"]:
        return (await prepare_database(dsn, [schema]))[schema.service]
    if not row["owns"]:
        raise Misconfigured(
            f"PostgreSQL role {row['role']!r} cannot create roles and does not own schema {schema.service!r}; "
            f"give the DSN of an administrator once, or of the owner of the schema"
        )
    await migrate(dsn, schema)
    return dsn


async def _connect(admin_dsn: str) -> asyncpg.Connection[Any]:
    """Connects to the database of the address, and creates it if the server does not have it."""
    try:
        return await asyncpg.connect(admin_dsn, timeout=5)
    except asyncpg.InvalidCatalogNameError:
        parts = urlsplit(admin_dsn)
        maintenance = await asyncpg.connect(urlunsplit(parts._replace(path=_MAINTENANCE_DATABASE)), timeout=5)
        try:
            await maintenance.execute(f'CREATE DATABASE "{unquote(parts.path[1:])}"')
        except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            pass  # another process was faster
        finally:
            await maintenance.close()
        return await asyncpg.connect(admin_dsn, timeout=5)


async def _provision(connection: asyncpg.Connection[Any], admin_dsn: str, schemas: Sequence[Schema]) -> list[Schema]:
    """Create missing roles and schemas; returns the schemas that are behind their head."""
    names = [schema_of(schema.service) for schema in schemas]
    roles = [role_of(schema.service) for schema in schemas]
    state = {row["role"]: row for row in await connection.fetch(_STATE, names, roles, VERSION_TABLE)}
    missing = [
        schema
        for schema in schemas
        if not state[role_of(schema.service)]["has_schema"]
        or state[role_of(schema.service)]["mark"] != _mark(admin_dsn, schema.service)
    ]
    if missing:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", lock_key("provision", ""))
            await connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
            for schema in missing:
                await _make(connection, admin_dsn, schema.service)
    migrated = [schema for schema in schemas if state[role_of(schema.service)]["migrated"]]
    at = await _revisions(connection, migrated)
    return [schema for schema in schemas if schema.is_behind(at.get(schema.service))]


async def _make(connection: asyncpg.Connection[Any], admin_dsn: str, service: str) -> None:
    """Create role and schema of one service. schema_of checks the names, the password is
    hexadecimal.
    """
    role, schema, password = role_of(service), schema_of(service), role_password(admin_dsn, service)
    exists = await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role)
    verb = "ALTER" if exists else "CREATE"
    await connection.execute(f"{verb} ROLE {role} LOGIN NOINHERIT PASSWORD '{password}'")
    await connection.execute(f"COMMENT ON ROLE {role} IS '{_mark(admin_dsn, service)}'")
    await connection.execute(f"GRANT {role} TO CURRENT_USER")
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {role}")
    await connection.execute(f"ALTER SCHEMA {schema} OWNER TO {role}")


async def _revisions(connection: asyncpg.Connection[Any], schemas: Sequence[Schema]) -> dict[str, str]:
    if not schemas:
        return {}
    tables = " UNION ALL ".join(
        f"SELECT '{schema_of(schema.service)}', version_num FROM {schema_of(schema.service)}.{VERSION_TABLE}"  # noqa: S608 - checked names
        for schema in schemas
    )
    return {row[0]: row[1] for row in await connection.fetch(tables)}


def _mark(admin_dsn: str, service: str) -> str:
    """Returns a mark that identifies the role's password without revealing it (it has 256 random
    bits).
    """
    digest = hashlib.sha256(role_password(admin_dsn, service).encode()).hexdigest()
    return f"slackwater {digest[:16]}"
