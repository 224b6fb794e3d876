"""A workload that this machine may be asked to start: what `slackwater exec` is given, and how it is ready. Pure.

Only files of the machine's own operator describe what is run. A request names one and its digest, so that the bus can
start what is described, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.agent.domain.admission import Command
from slackwater.model.workload_labels import offered_label

READY_SECONDS, GRACE_SECONDS = 30.0, 30.0


@dataclass(frozen=True, slots=True)
class ReadyCheck:
    """A pod is ready when this address accepts a connection, or this command exits with 0; with neither, when it runs.

    `within_seconds` counts from its start.
    """

    host: str = ""
    port: int = 0
    command: tuple[str, ...] = ()
    within_seconds: float = READY_SECONDS


@dataclass(frozen=True, slots=True)
class WorkloadTemplate:
    """`grace_seconds`: from SIGTERM to SIGKILL, where the pod has to be ended because it was not ready in time."""

    name: str
    digest: str
    command: Command
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    grace_seconds: float = GRACE_SECONDS
    ready: ReadyCheck = field(default_factory=ReadyCheck)
    movable: bool = False
    """Whether migration may start it here for a pod of the same workload that it ended elsewhere."""


def node_labels(templates: Mapping[str, WorkloadTemplate]) -> dict[str, str]:
    """The labels by which others see what this node can start."""
    return {offered_label(name): one.digest for name, one in sorted(templates.items()) if one.movable}
