"""Whether a requested start may begin: once per id, never late, never without a living lease, only what is described.
Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slackwater.agent.domain.workload_template import WorkloadTemplate
from slackwater.model.start_states import StartState

LAUNCH_SECONDS = 5.0
"""A launched process that has not begun its pod by then does not begin it any more."""
UNSEEN_SECONDS = 10.0
"""A pod that is not seen so long after its launch is not there."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """One start as a writer requests it."""

    id: str
    workload: str
    digest: str
    writer: str
    deadline: datetime
    decision_id: str


@dataclass(frozen=True, slots=True)
class StartRecord:
    """A start that was decided, as it is kept over a restart of the agent. `state` STARTING while it is under way."""

    id: str
    writer: str
    workload: str
    pod_uid: str
    deadline: datetime
    decision_id: str
    state: StartState
    started_at: datetime
    detail: str = ""
    ready_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """Why a start never begins."""

    state: StartState
    detail: str


WAIT = None
"""The lease of the writer has run out: nothing begins, and it is considered again."""


def judge_start(
    request: StartRequest, template: WorkloadTemplate | None, *, lease_alive: bool, now: datetime
) -> WorkloadTemplate | StartRefusal | None:
    """Returns what to start, why it never starts, or WAIT. The first rule that applies."""
    if now >= request.deadline:
        return StartRefusal(StartState.EXPIRED, "the deadline had passed before it could begin")
    if not lease_alive:
        return WAIT
    if template is None:
        return StartRefusal(StartState.REFUSED, f"no workload file {request.workload}.yaml here can be read")
    if template.digest != request.digest:
        said = f"the file of this node has the digest {template.digest}, the request {request.digest}"
        return StartRefusal(StartState.REFUSED, f"{request.workload}: {said}")
    if not template.movable:
        return StartRefusal(StartState.REFUSED, f"{request.workload}: its file does not say movable: true")
    return template
