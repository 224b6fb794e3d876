"""Quarantined items of services: where they are read, and their columns."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from slackwater.cli.item_fields import age_at, text_at
from slackwater.cli.output import Item, TableColumn
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
    TableColumn("ID", text_at("id")),
    TableColumn("SERVICE", text_at("service")),
    TableColumn("TABLE", text_at("table")),
    TableColumn("ROW", text_at("row")),
    TableColumn("REASON", text_at("reason")),
    TableColumn("SINCE", age_at("since"), right=True),
    TableColumn("COUNT", text_at("count"), right=True),
    TableColumn("DETAIL", text_at("detail")),
    TableColumn("NODE", text_at("node"), wide=True),
    TableColumn("FAILED", age_at("failed_at"), right=True, wide=True),
)
