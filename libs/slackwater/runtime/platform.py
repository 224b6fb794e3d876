"""What every composition root is handed: the bus, its own database, the clock. Built once per process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.bus.port import Bus
from slackwater.model.time import Clock

if TYPE_CHECKING:  # an agent has no database and must not load SQLAlchemy
    from slackwater.store.port import Database


@dataclass(frozen=True, slots=True)
class Platform:
    """`database(service)` gives the service its schema; it exists only where a PostgreSQL is configured."""

    bus: Bus
    clock: Clock
    database: Callable[[str], Database]
    state_dir: Path
