"""Starts pods of the simulated fleet's workloads, which every machine of the fleet can run: so that moves end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from slackwater.agent.adapters.simulated import FLEET, SimulatedDriver, fleet_pod, requested_per_cpu
from slackwater.agent.adapters.simulated_load import Load
from slackwater.agent.domain.admission import Command
from slackwater.agent.domain.workload_template import WorkloadTemplate
from slackwater.model.workload_labels import digest_of


@dataclass(frozen=True, slots=True)
class SimulatedLauncher:
    """See slackwater.agent.ports.Launcher. A pod runs, and is ready, as soon as it is launched."""

    driver: SimulatedDriver

    def templates(self) -> Mapping[str, WorkloadTemplate]:
        return _TEMPLATES[self.driver.load]

    def launch(self, template: WorkloadTemplate, uid: str, labels: Mapping[str, str], within_seconds: float) -> None:
        name, now = f"{template.name}-{self.driver.node}-{uid[-8:]}", self.driver.clock.now()
        self.driver.begin(fleet_pod(template.name, self.driver.cpus, now, uid, name, labels, self.driver.load))

    async def is_ready(self, template: WorkloadTemplate) -> bool:
        return True

    def why_ended(self, uid: str) -> str:
        return "the pod is not on this machine"


def _template(workload: str, load: Load) -> WorkloadTemplate:
    command = Command(
        FLEET[workload][0].value, f"{requested_per_cpu(workload, load)}m", "1Gi", workload, arguments=("simulated",)
    )
    return WorkloadTemplate(workload, digest_of(workload.encode()), command, movable=True)


_TEMPLATES: Mapping[Load, Mapping[str, WorkloadTemplate]] = {
    load: {workload: _template(workload, load) for workload in FLEET} for load in get_args(Load)
}
