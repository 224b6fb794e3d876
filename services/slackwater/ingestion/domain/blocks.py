"""Blocks of agents: validation of an operator's request, and the change it makes to the present block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.model.errors import InvalidInput

LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class AgentBlock:
    """One change of a node's block, made at `since`. The change with the highest generation is in force."""

    node: str
    generation: int
    blocked: bool
    reason: str
    changed_by: str
    since: datetime


def blocked(node: str, present: AgentBlock | None, reason: str, by: str, now: datetime) -> AgentBlock:
    """Returns the next block of a node's agent, or `present` itself if nothing changes. Raises InvalidInput for a bad
    reason.
    """
    reason = checked_reason(reason)
    if present is not None and present.blocked and present.reason == reason:
        return present
    return AgentBlock(node, _next(present), blocked=True, reason=reason, changed_by=by, since=now)


def unblocked(present: AgentBlock, by: str, now: datetime) -> AgentBlock:
    """Returns the end of a block. The reason is kept, so that the history shows which block ended."""
    return replace(present, generation=_next(present), blocked=False, changed_by=by, since=now)


def checked_reason(reason: str) -> str:
    """Returns the reason as one line. Raises InvalidInput if it is empty, too long or not printable."""
    line = " ".join(reason.split())
    if not line or len(line) > LONGEST_REASON or not line.isprintable():
        raise InvalidInput(
            f"reason: {reason[:50]!r} is not allowed; give one line of 1 to {LONGEST_REASON} printable characters",
            field="reason",
        )
    return line


def _next(present: AgentBlock | None) -> int:
    return 1 if present is None else present.generation + 1
