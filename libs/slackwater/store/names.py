"""Names of a service's objects in the shared database, and SQL expressions that several statements
share.
"""

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
    """Returns the schema's name, which is the service's. Raises InvalidInput for a name that SQL
    would require to be quoted.
    """
    if not _SERVICE.fullmatch(service):
        raise InvalidInput(f"service: {service!r} cannot be a schema; allowed: {_SERVICE.pattern}", field="service")
    return service


def role_of(service: str) -> str:
    return f"slackwater_{schema_of(service)}"


def outbox_channel(service: str) -> str:
    return f"slackwater_outbox_{schema_of(service)}"


def news_channel(service: str) -> str:
    """Returns the NOTIFY channel on which a service's replicas announce changes in their schema."""
    return f"slackwater_news_{schema_of(service)}"


def readable_time(column: str) -> str:
    """Returns SQL for the time in a column, clamped to slackwater.model.bounds.Moment. A time
    beyond Python's datetime would fail the whole query, and one beyond these bounds fits in no
    event.
    """
    return f"LEAST(GREATEST({column}, '1970-01-02Z'), '2199-12-31Z')"


def partition_of_sql(column: str) -> str:
    """Returns SQL for the partition of the key in a text column, equal to
    slackwater.model.identifiers.partition_of.
    """
    return f"(crc32(convert_to({column}, 'UTF8')) % {SHARDS} * {PARTITIONS} / {SHARDS})"


def lock_key(purpose: str, service: str) -> int:
    """Returns the key of a PostgreSQL advisory lock: `SLCK` and 32 bits of purpose and service."""
    return 0x534C434B << 31 | zlib.crc32(f"{purpose}/{service}".encode()) >> 1


def role_password(admin_dsn: str, service: str) -> str:
    """Returns the password of a service's role, derived from the administrator's, so that it need
    not be stored.

    Raises Misconfigured for a remote address without a password: the derived one would not be
    a secret.
    """
    parts = urlsplit(admin_dsn)
    secret = _password(parts)
    if not secret and not _stays_here(parts):
        raise Misconfigured(
            "--postgres: the administrator's address holds no password to derive the services' passwords from; "
            "write it into the address (postgresql://user:password@host/database), or use a loopback address or "
            "a unix socket",
            field="postgres",
        )
    return hmac.new(secret.encode(), f"slackwater role {service}".encode(), hashlib.sha256).hexdigest()


def service_dsn(admin_dsn: str, service: str) -> str:
    """Returns the address with which a service logs in as its own role, derived from the
    provisioning address.

    Raises Misconfigured as role_password does.
    """
    parts = urlsplit(admin_dsn)
    where = parts.netloc.rpartition("@")[2]
    login = f"{role_of(service)}:{quote(role_password(admin_dsn, service))}"
    others = {name: given for name, given in parse_qs(parts.query).items() if name not in ("user", "password")}
    query = parts.query if len(others) == len(parse_qs(parts.query)) else urlencode(others, doseq=True)
    return urlunsplit(parts._replace(netloc=f"{login}@{where}", query=query))


def _password(parts: SplitResult) -> str:
    """Returns the password in the address itself; other processes do not see PGPASSWORD or a
    password file.
    """
    return unquote(parts.password or "") or parse_qs(parts.query).get("password", [""])[0]


def _stays_here(parts: SplitResult) -> bool:
    """Returns whether the driver stays on this machine: each host is a loopback address or a socket
    folder.
    """
    named = [
        *_hosts(parts.netloc),
        *(host for given in parse_qs(parts.query).get("host", []) for host in given.split(",")),
    ]
    named = named or [host for host in os.environ.get("PGHOST", "").split(",") if host]
    return all(host.startswith("/") or is_loopback(host) for host in named)


def _hosts(netloc: str) -> list[str]:
    """Returns the hosts: `user@[::1]:5432,db` → `[::1]`, `db`; empty where the address names
    none.
    """
    named = unquote(netloc.rpartition("@")[2]).split(",")
    return [host for one in named if (host := re.sub(r":\d*$", "", one))]
