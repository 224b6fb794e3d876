"""CPU nice values by service (contracts/services.yaml): ensurance runs first, prediction and the
console last.

At ten times the load that a core can take, ensurance with ingestion's nice value used a third of
the core and answered after 1.3 s (p99). The effect of these values was not measured yet on an idle
machine. Where each service has its own machine or container, they change nothing.
"""

from __future__ import annotations

import os

from slackwater.runtime.service_list import service_list


def lower_cpu_priority(service: str) -> int:
    """Raise the nice value of this process to its service's; returns the nice value. It is never
    lowered.
    """
    spec = service_list().deployed.get(service)
    return os.nice(max(0, (spec.nice if spec is not None else 0) - os.nice(0)))
