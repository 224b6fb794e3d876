"""What every composition root receives: bus, its own database, clock. Built once per process."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.bus.port import Bus
from slackwater.model.time import Clock
from slackwater.runtime.ownership import Timing

if TYPE_CHECKING:  # an agent has no database and must not load SQLAlchemy
    from slackwater.store.port import Database


def new_member(instance: str | None = None) -> str:
    """Returns a member name for this process. With a named `instance` it is the newest incarnation,
    and earlier ones are dead.
    """
    incarnation = f"{os.getpid()}-{secrets.token_hex(4)}"
    return f"{instance or f'{socket.gethostname()}-{incarnation}'}/{incarnation}"


@dataclass(frozen=True, slots=True)
class Platform:
    """`database(service)` returns the service's schema; available only where PostgreSQL is
    configured.
    """

    bus: Bus
    clock: Clock
    database: Callable[[str], Database]
    state_dir: Path
    member: str = field(default_factory=new_member)
    """This process among the replicas of its services: `instance/incarnation`
    (slackwater.runtime.ownership).
    """
    timing: Timing = field(default_factory=Timing)
    """Heartbeats and leases of partitions; the same for all replicas of a service."""
