"""Tries the broker and the database of a deployment as unauthenticated clients; prints the results as JSON.

python unauthenticated_clients.py SECRETS BROKER-ADDRESS DATABASE-ADDRESS
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import nats
from nats.errors import Error as NatsError

from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.connect.access import inbox_of, read_credentials

Attempt = Callable[[], Awaitable[object]]


async def quiet(_: Exception) -> None:
    """The attempt itself says what came."""


def signed_by(token: UserCredentials, key: UserCredentials) -> dict[str, Any]:
    return {"user_jwt_cb": lambda: bytearray(token.token.encode()), "signature_cb": key.answer}


def broker(secrets: Path, address: str) -> dict[str, Attempt]:
    context = ssl.create_default_context(cafile=secrets / "console" / "ca.crt")
    tls: dict[str, Any] = {"tls": context, "tls_hostname": "nats"}
    console, ingestion = [read_credentials(secrets / name / "nats.creds") for name in ("console", "ingestion")]
    right = tls | signed_by(console, console)

    async def connect(scheme: str = "tls", **options: Any) -> nats.NATS:
        return await nats.connect(
            f"{scheme}://{address}:4222", allow_reconnect=False, connect_timeout=30, error_cb=quiet, **options
        )

    async def hears(subject: str) -> None:
        client = await connect(**right, inbox_prefix=inbox_of("console").encode())
        await client.subscribe(subject)
        await client.flush()
        await asyncio.sleep(0.1)
        if client.last_error is not None:
            raise client.last_error

    return {
        "broker: console over TLS": lambda: connect(**right),
        "broker: console hears its own inbox": lambda: hears("_INBOX.console.a"),
        "broker: console hears everything": lambda: hears(">"),
        "broker: console hears another's inbox": lambda: hears("_INBOX.ingestion.>"),
        "broker: console hears events beside its streams": lambda: hears("sw.v1.usage.reported.>"),
        "broker: no user": lambda: connect(**tls),
        "broker: wrong password": lambda: connect(user="console", password="console", **tls),
        "broker: another's token": lambda: connect(**tls | signed_by(ingestion, console)),
        "broker: other authorities": lambda: connect(**right | {"tls": ssl.create_default_context()}),
        "broker: under another name": lambda: connect(**right | {"tls_hostname": "postgres"}),
    }


def database(secrets: Path, address: str) -> dict[str, Attempt]:
    console = urlsplit((secrets / "console" / "dsn").read_text().strip())

    async def ask(query: str, **login: str) -> None:
        given = {"user": console.username, "password": console.password, "database": "slackwater"} | login
        connection = await asyncpg.connect(host=address, port=5432, timeout=30, **given)
        try:
            await connection.execute(query)
        finally:
            await connection.close()

    return {
        "database: console as itself": lambda: ask("SELECT * FROM console.alembic_version"),
        "database: console reads another's schema": lambda: ask("SELECT * FROM ingestion.alembic_version"),
        "database: console writes into public": lambda: ask("CREATE TABLE public.t (i int)"),
        "database: console becomes another": lambda: ask("SET ROLE slackwater_ingestion"),
        "database: console makes a role": lambda: ask("CREATE ROLE more"),
        "database: console reads files": lambda: ask("SELECT pg_read_file('/etc/passwd')"),
        "database: wrong password": lambda: ask("SELECT 1", password="wrong"),
        "database: administrator without password": lambda: ask("SELECT 1", user="slackwater", password=""),
    }


async def outcome(attempt: Attempt) -> str:
    try:
        await attempt()
    except (NatsError, asyncpg.PostgresError, ssl.SSLError, OSError, TimeoutError, asyncpg.InterfaceError):
        return "refused"
    return "done"


async def main() -> None:
    secrets = Path(sys.argv[1])
    attempts = broker(secrets, sys.argv[2]) | database(secrets, sys.argv[3])
    json.dump({what: await outcome(attempt) for what, attempt in attempts.items()}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
