"""Starts pods of the simulated fleet's workloads, which every machine of the fleet can run: so that moves end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.agent.adapters.simulated import FLEET, SimulatedDriver, fleet_pod
from slackwater.agent.domain.admission import Command
from slackwater.agent.domain.workload_template import WorkloadTemplate
from slackwater.model.workload_labels import digest_of


@dataclass(frozen=True, slots=True)
class SimulatedLauncher:
    """See slackwater.agent.ports.Launcher. A pod runs, and is ready, as soon as it is launched."""

    driver: SimulatedDriver

    def templates(self) -> Mapping[str, WorkloadTemplate]:
        return _TEMPLATES

    def launch(self, template: WorkloadTemplate, uid: str, labels: Mapping[str, str], within_seconds: float) -> None:
        name, now = f"{template.name}-{self.driver.node}-{uid[-8:]}", self.driver.clock.now()
        self.driver.begin(fleet_pod(template.name, self.driver.cpus, now, uid, name, labels))

    async def is_ready(self, template: WorkloadTemplate) -> bool:
        return True

    def why_ended(self, uid: str) -> str:
        return "the pod is not on this machine"


def _template(workload: str) -> WorkloadTemplate:
    tier, milli_per_cpu = FLEET[workload]
    command = Command(tier.value, f"{milli_per_cpu}m", "1Gi", workload, arguments=("simulated",))
    return WorkloadTemplate(workload, digest_of(workload.encode()), command, movable=True)


_TEMPLATES: Mapping[str, WorkloadTemplate] = {workload: _template(workload) for workload in FLEET}
