"""What services have set aside: where it is asked for, and its columns."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from slackwater.cli.output import UNKNOWN, Column, Item, age
from slackwater.model.errors import NotFound

if TYPE_CHECKING:
    from slackwater.cli.client import Reader

QUARANTINE = "/v1/quarantine"
KEEPERS = ("ingestion", "prediction", "colocation", "ensurance", "console")
"""Services with a quarantine, each below that path."""


def set_aside(reader: Reader) -> list[Item]:
    """What every service that answers here has set aside: a process of one service has its own only."""
    items: list[Item] = []
    for service in KEEPERS:
        with contextlib.suppress(NotFound):
            items += reader.get(f"{QUARANTINE}/{service}")["items"]
    return items


def _age(item: Item, name: str) -> str:
    return age(item.get(name), datetime.now(UTC))


SET_ASIDE = (
    Column("ID", lambda item: str(item["id"])),
    Column("SERVICE", lambda item: str(item["service"])),
    Column("TABLE", lambda item: str(item["table"])),
    Column("ROW", lambda item: str(item["row"])),
    Column("REASON", lambda item: str(item["reason"])),
    Column("SINCE", lambda item: _age(item, "since"), right=True),
    Column("COUNT", lambda item: str(item["count"]), right=True),
    Column("DETAIL", lambda item: str(item["detail"] or UNKNOWN)),
    Column("NODE", lambda item: str(item["node"] or UNKNOWN), wide=True),
    Column("FAILED", lambda item: _age(item, "failed_at"), right=True, wide=True),
)
