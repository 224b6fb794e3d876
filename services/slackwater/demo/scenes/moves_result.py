"""The result of the scene moves, and every sentence that its table carries. Pure."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from slackwater.demo.scenes.result import Result, SceneReport, Turn
from slackwater.demo.scenes.spread import spread_text
from slackwater.model.plurals import counted

MOVED: Final = "moved"
UNSCHEDULABLE, HEADROOM = "Unschedulable", "headroom"
"""The reason of a job without room, and the filter that other work of the machine causes."""


class MoveStep(BaseModel):
    """When a job was first seen in a step, in seconds since it was applied."""

    model_config = ConfigDict(frozen=True)

    step: str
    seconds: float


class MoveTurn(Turn):
    """One move. `downtime_seconds` is that of the job's status; `silent_seconds` is how long a client had no answer.

    `answers_from` is the node whose pod answers after it; `mixed` counts answers of the old pod after the first one of
    the new pod.
    """

    job: str
    from_node: str
    to_node: str
    phase: str = ""
    outcome: str = ""
    reason: str = ""
    message: str = ""
    steps: tuple[MoveStep, ...] = ()
    downtime_seconds: float | None = None
    silent_seconds: float | None = None
    requests: int = 0
    failed: int = 0
    mixed: int = 0
    answers_from: str = ""


class MovesScene(Result):
    """The scene: `workload` of a file with this digest moves between the nodes. `why` is what `slackwater why` printed
    about the last move."""

    workload: str = ""
    digest: str = ""
    turns: tuple[MoveTurn, ...] = ()
    why: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Cgroups and processes of the two agents that were there after their end."""


def report(scene: MovesScene) -> SceneReport:
    """Returns a table with a row per move, and what it says."""
    return SceneReport(
        title=f"moves: the HTTP service {scene.workload} of one workload file (digest {scene.digest}) between two "
        "agents of this machine",
        columns=("from", "to", "applied to\nevicting s", "applied to\nended s", "downtime s,\nby the agents",
                 "no answer s,\nby a client", "requests", "failed", "answers\nfrom"),
        rows=tuple(_row(turn) for turn in scene.turns),
        sentences=tuple(sentences(scene)),
        failures=(
            *(failure for turn in scene.turns for failure in failures(turn)),
            *(f"moves: left behind: {one}" for one in scene.left),
        ),
        not_measurable=tuple(_without_room(turn) for turn in scene.turns if is_without_room(turn)),
    )  # fmt: skip


def _row(turn: MoveTurn) -> tuple[str, ...]:
    at = {step.step: step.seconds for step in turn.steps}
    return (
        turn.from_node,
        turn.to_node,
        _seconds(at.get("evicting", at.get("replacing"))),
        _seconds(at.get("ended")),
        _seconds(turn.downtime_seconds),
        _seconds(turn.silent_seconds),
        str(turn.requests),
        str(turn.failed),
        turn.answers_from or "nothing",
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def sentences(scene: MovesScene) -> list[str]:
    """Returns what the table says in words."""
    downtimes = [turn.downtime_seconds for turn in scene.turns if turn.downtime_seconds is not None]
    silences = [turn.silent_seconds for turn in scene.turns if turn.silent_seconds is not None]
    moved = sum(turn.outcome == MOVED for turn in scene.turns)
    found = [f"moves: {moved} of {counted(len(scene.turns), 'move')} ended with the service on the other node"]
    if downtimes and silences:
        found.append(
            f"moves: downtime {spread_text(downtimes, 2)} s by the agents' answers; a client that asks all "
            f"the time had no answer for {spread_text(silences, 2)} s"
        )
    return found if scene.turns else []


def is_without_room(turn: MoveTurn) -> bool:
    """Whether other programs of the machine leave no room, of memory: the service stays, and nothing can be shown."""
    return turn.reason == UNSCHEDULABLE and HEADROOM in turn.message


def _without_room(turn: MoveTurn) -> str:
    return f"{_name(turn)}: other programs leave this machine too little room: {turn.message}"


def _name(turn: MoveTurn) -> str:
    return f"moves, {turn.from_node} to {turn.to_node}"


def failures(turn: MoveTurn) -> list[str]:
    """Returns what a move promises and did not show."""
    name, found = _name(turn), list[str]()
    if is_without_room(turn):
        return found
    if turn.outcome != MOVED:
        said = f": {turn.message}" if turn.message else ""
        found.append(f"{name}: the job is {turn.phase or 'not known'}, {turn.outcome or 'not ended'}{said}")
    elif turn.answers_from != turn.to_node:
        found.append(f"{name}: the job succeeded, and {turn.answers_from or 'nothing'} answers")
    if turn.outcome == MOVED and turn.downtime_seconds is None:
        found.append(f"{name}: the job shows no downtime")
    if turn.mixed:
        found.append(f"{name}: {counted(turn.mixed, 'answer')} of the old pod after the first one of the new pod")
    return found
