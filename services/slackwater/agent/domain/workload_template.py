"""A workload that this machine may be asked to start: what `slackwater exec` is given, and how it is ready. Pure.

Only files of the machine's own operator describe what is run. A request names one and its digest, so that the bus can
start what is described, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.agent.domain.admission import Command

DIGEST_LABEL = "workload.slackwater.io/"
"""Prefix of the node labels that name the workloads a node can start; the value is the digest."""
TEMPLATE_LABEL = "slackwater.io/workload-digest"
"""Label of a pod that was started from a file: the digest of that file. Its workload is the file's name."""
START_LABEL = "slackwater.io/start"
"""Label of a pod that was started by request: the id of the request."""
READY_SECONDS, GRACE_SECONDS = 30.0, 30.0
_DIGITS = 16


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


def digest_of(content: bytes) -> str:
    """The digest of a file's content, short enough for a label."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def node_labels(templates: Mapping[str, WorkloadTemplate]) -> dict[str, str]:
    """The labels by which others see what this node can start."""
    return {f"{DIGEST_LABEL}{name}": one.digest for name, one in sorted(templates.items()) if one.movable}
