"""agent.decision_recorded: a decision of an agent by itself, in the stream of what agents publish."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.decision_recorded import DecisionRecorded


class AgentDecisionRecorded(DecisionRecorded):
    """A decision record of a disconnected agent, in the form of decision.recorded. The console stores both alike."""

    KEY_PARTS: ClassVar[int] = 1
    TYPE: ClassVar[str] = "agent.decision_recorded"
    STREAM: ClassVar[str] = "AGENTS"
    FROM_AGENT: ClassVar[bool] = True

    def key(self) -> str:
        return self.record.node
