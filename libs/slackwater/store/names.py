"""Names that belong to one service in the shared database: schema, role, password, notification channel, locks."""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import PARTITIONS, SHARDS

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


def partition_of_sql(column: str) -> str:
    """The partition of the key in a text column, as slackwater.model.identifiers.partition_of computes it."""
    return f"(crc32(convert_to({column}, 'UTF8')) % {SHARDS} * {PARTITIONS} / {SHARDS})"


def lock_key(purpose: str, service: str) -> int:
    """Key of a PostgreSQL advisory lock: `SLCK` and 32 bits of purpose and service."""
    return 0x534C434B << 31 | zlib.crc32(f"{purpose}/{service}".encode()) >> 1


def role_password(admin_dsn: str, service: str) -> str:
    """Derived from the administrator's password: nothing more to store, and the same at every start."""
    secret = unquote(urlsplit(admin_dsn).password or "").encode()
    return hmac.new(secret, f"slackwater role {service}".encode(), hashlib.sha256).hexdigest()


def service_dsn(admin_dsn: str, service: str) -> str:
    """The address with which a service logs in as its own role, from the one with which it was provisioned."""
    parts = urlsplit(admin_dsn)
    where = parts.netloc.rpartition("@")[2]
    login = f"{role_of(service)}:{quote(role_password(admin_dsn, service))}"
    return urlunsplit(parts._replace(netloc=f"{login}@{where}"))
