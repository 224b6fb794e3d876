"""Many simulated machines in one process: one agent each, the same agent as on a real machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.agent.node_agent import AgentService
from slackwater.agent.usecases.actuate import RestoreReport
from slackwater.runtime.service import Check

if TYPE_CHECKING:  # an agent must not pay for FastAPI
    from fastapi import APIRouter


@dataclass(slots=True)
class FleetService:
    """See slackwater.runtime.service.Service: all agents as one. Their samples are spread over the interval."""

    agents: Sequence[AgentService]
    report_file: Path
    keep_report: Callable[[Path, RestoreReport], None]
    spread_seconds: float

    @property
    def name(self) -> str:
        return "agent"

    @property
    def restored_exactly(self) -> bool:
        """Whether every agent put everything back; known after `run`."""
        return all(agent.restored_exactly for agent in self.agents)

    async def run(self, started: Callable[[], None]) -> None:
        waiting = {agent.settings.node for agent in self.agents}

        def one_started(node: str | None) -> None:
            waiting.discard(node)
            if not waiting:
                started()

        async def life(number: int, agent: AgentService) -> None:
            await agent.platform.clock.sleep(number * self.spread_seconds / len(self.agents))
            await agent.run(lambda: one_started(agent.settings.node))

        try:
            async with asyncio.TaskGroup() as group:
                for number, agent in enumerate(self.agents):
                    group.create_task(life(number, agent))
        finally:
            files = [file for agent in self.agents if agent.restore_report for file in agent.restore_report.files]
            self.keep_report(self.report_file, RestoreReport(tuple(files)))

    async def checks(self) -> Sequence[Check]:
        checks = [check for agent in self.agents for check in await agent.checks()]
        bad = [check for check in checks if not check.ok]
        return bad[:3] or (Check("agents", True, f"{len(self.agents)} simulated nodes report"),)

    def routers(self) -> Sequence[APIRouter]:
        return ()
