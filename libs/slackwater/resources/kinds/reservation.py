"""Reservation: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Kind

RESERVATION: Final = Kind(
    name="Reservation",
    plural="reservations",
    short=("rsv",),
    service="migration",
    model="slackwater.reservations.documents:ReservationDocument",
    hooks="slackwater.migration.usecases.reservation_documents:ReservationHooks",
    about="room on a node that is kept for pods to come",
    columns=(
        NAME,
        Column("PHASE", ".status.phase"),
        Column("NODE", ".status.nodeName"),
        Column("JOB", ".status.job"),
        Column("REASON", ".status.reason"),
        Column("MESSAGE", ".status.message", priority=1),
        GENERATION,
        CHANGED_BY,
    ),
    example={"resources": {"cpu": "2", "memory": "4Gi"}, "owners": [{"workload": "default/web"}]},
)
