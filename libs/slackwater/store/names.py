"""Names that belong to one service in the shared database, and expressions that several statements share."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import zlib
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urlsplit, urlunsplit

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.identifiers import PARTITIONS, SHARDS
from slackwater.runtime.loopback import is_loopback

_SERVICE = re.compile(r"[a-z][a-z0-9_]{0,40}")


def schema_of(service: str) -> str:
    """The schema has the service's name. Raises InvalidInput for a name that would need quoting in SQL."""
    if not _SERVICE.fullmatch(service):
        raise InvalidInput(f"service: {service!r} cannot be a schema; allowed: {_SERVICE.pattern}", field="service")
    return service


def role_of(service: str) -> str:
    return f"slackwater_{schema_of(service)}"


def outbox_channel(service: str) -> str:
    return f"slackwater_outbox_{schema_of(service)}"


def news_channel(service: str) -> str:
    """Where the replicas of a service tell each other that something changed in their schema."""
    return f"slackwater_news_{schema_of(service)}"


def readable_time(column: str) -> str:
    """The time in a column, within the bounds of slackwater.model.bounds.Moment: beyond what Python's datetime holds
    it would fail the whole query, and beyond the bounds no event could carry it."""
    return f"LEAST(GREATEST({column}, '1970-01-02Z'), '2199-12-31Z')"


def partition_of_sql(column: str) -> str:
    """The partition of the key in a text column, as slackwater.model.identifiers.partition_of computes it."""
    return f"(crc32(convert_to({column}, 'UTF8')) % {SHARDS} * {PARTITIONS} / {SHARDS})"


def lock_key(purpose: str, service: str) -> int:
    """Key of a PostgreSQL advisory lock: `SLCK` and 32 bits of purpose and service."""
    return 0x534C434B << 31 | zlib.crc32(f"{purpose}/{service}".encode()) >> 1


def role_password(admin_dsn: str, service: str) -> str:
    """Derived from the administrator's password: nothing more to store, and the same at every start.

    Raises Misconfigured for an address beyond this machine that holds no password: everybody could compute it.
    """
    parts = urlsplit(admin_dsn)
    secret = _password(parts)
    if not secret and not _stays_here(parts):
        raise Misconfigured(
            "--postgres: the administrator's address holds no password, and the services' passwords are derived from "
            "it; write it into the address (postgresql://user:password@host/database), or use a loopback address or "
            "a unix socket",
            field="postgres",
        )
    return hmac.new(secret.encode(), f"slackwater role {service}".encode(), hashlib.sha256).hexdigest()


def service_dsn(admin_dsn: str, service: str) -> str:
    """The address with which a service logs in as its own role, from the one with which it was provisioned.

    Raises Misconfigured as role_password does.
    """
    parts = urlsplit(admin_dsn)
    where = parts.netloc.rpartition("@")[2]
    login = f"{role_of(service)}:{quote(role_password(admin_dsn, service))}"
    others = {name: given for name, given in parse_qs(parts.query).items() if name not in ("user", "password")}
    query = parts.query if len(others) == len(parse_qs(parts.query)) else urlencode(others, doseq=True)
    return urlunsplit(parts._replace(netloc=f"{login}@{where}", query=query))


def _password(parts: SplitResult) -> str:
    """Of the address alone: what the driver takes from PGPASSWORD or a password file, other processes do not know."""
    return unquote(parts.password or "") or parse_qs(parts.query).get("password", [""])[0]


def _stays_here(parts: SplitResult) -> bool:
    """Whether the driver stays on this machine: each host is a loopback address or a folder of sockets."""
    named = [
        *_hosts(parts.netloc),
        *(host for given in parse_qs(parts.query).get("host", []) for host in given.split(",")),
    ]
    named = named or [host for host in os.environ.get("PGHOST", "").split(",") if host]
    return all(host.startswith("/") or is_loopback(host) for host in named)


def _hosts(netloc: str) -> list[str]:
    """`user@[::1]:5432,db` → `[::1]`, `db`; nothing where the address names none."""
    named = unquote(netloc.rpartition("@")[2]).split(",")
    return [host for one in named if (host := re.sub(r":\d*$", "", one))]
