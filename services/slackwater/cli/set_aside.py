"""Quarantined items of services: where they are read, and their columns."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from slackwater.cli.item_fields import age_at, text_at
from slackwater.cli.output import Column, Item
from slackwater.model.errors import NotFound

if TYPE_CHECKING:
    from slackwater.cli.client import Reader

QUARANTINE = "/v1/quarantine"


def set_aside(reader: Reader) -> list[Item]:
    """The quarantined items of every service that answers here; a process with one service has only its own."""
    from slackwater.runtime.service_list import service_names

    items: list[Item] = []
    for service in service_names():
        with contextlib.suppress(NotFound):
            items += reader.get(f"{QUARANTINE}/{service}")["items"]
    return items


SET_ASIDE = (
    Column("ID", text_at("id")),
    Column("SERVICE", text_at("service")),
    Column("TABLE", text_at("table")),
    Column("ROW", text_at("row")),
    Column("REASON", text_at("reason")),
    Column("SINCE", age_at("since"), right=True),
    Column("COUNT", text_at("count"), right=True),
    Column("DETAIL", text_at("detail")),
    Column("NODE", text_at("node"), wide=True),
    Column("FAILED", age_at("failed_at"), right=True, wide=True),
)
