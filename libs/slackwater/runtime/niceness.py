"""CPU niceness by service (contracts/services.yaml): ensurance runs first, prediction and the console last.

Under ten times the load that a core can take, ensurance used a third of the core beside an ingestion of the same
niceness, and answered after 1.3 s (p99). How much this rank gains was not measured yet on a quiet machine. Where each
service has a machine or a container of its own, it changes nothing.
"""

from __future__ import annotations

import os

from slackwater.runtime.service_list import service_list


def give_way(service: str) -> int:
    """Raise the niceness of this process to that of its service; returns the niceness. It is never lowered."""
    spec = service_list().services.get(service)
    return os.nice(max(0, (spec.nice if spec is not None else 0) - os.nice(0)))
