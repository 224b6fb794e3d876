"""On a machine that all services share, whoever ends a shortage goes first, and whoever looks ahead or shows can wait.

Under ten times the load that a core can take, ensurance used a third of the core beside an ingestion of the same
niceness, and answered after 1.3 s (p99). How much this rank gains was not measured yet on a quiet machine. Where each
service has a machine or a container of its own, it changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

NICENESS: Mapping[str, int] = {"ingestion": 2, "colocation": 5, "console": 8, "prediction": 10}
"""Of each service's process; ensurance and whoever is not named stay as they are."""


def give_way(service: str) -> int:
    """Make this process as nice as its service is, unless it is nicer already; returns its niceness."""
    return os.nice(max(0, NICENESS.get(service, 0) - os.nice(0)))
