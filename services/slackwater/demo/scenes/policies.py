"""The optional scene policies: all or nothing and precise throttling under the same surges."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from slackwater.demo import policies, schedule, versus
from slackwater.demo.api import Api
from slackwater.demo.comparison import PolicyComparison
from slackwater.demo.contest import BATCH_PODS, BATCH_SHARE, Contest
from slackwater.demo.kernel import Kernel
from slackwater.demo.narrator import Narrator
from slackwater.demo.scenes.other_work import measured
from slackwater.demo.scenes.request_bench import running_bench
from slackwater.demo.scenes.result import Result, SceneReport, Turn
from slackwater.demo.scenes.scene import DemoScene, Stage
from slackwater.demo.workloads import Workloads

_OVERHEAD_SECONDS, _PAIR_SECONDS = 12.0, 55.0
_PROBE_SECONDS: Final = 4.0


class PoliciesScene(Result):
    """The comparison; its surges are measured together, as one turn."""

    comparison: PolicyComparison = PolicyComparison()


@dataclass(slots=True)
class ContestStage:
    """What the comparison works with."""

    api: Api
    kernel: Kernel
    narrator: Narrator
    workloads: Workloads
    doing: str = ""


async def perform(stage: Stage, turns: int) -> PoliciesScene:
    """Runs the comparison: so many pairs of surges, or one more if there is time."""
    cpus = stage.workloads.cpus
    async with running_bench(stage, 500 * cpus) as bench:
        batch = await stage.workloads.batch()
        probe = await bench.measure("probe", "policies: probing", schedule.SURGE_LOAD, _PROBE_SECONDS)
        rates = schedule.compared(
            cpus, bench.request_cpu, probe.phase.other_cpu, policies.COMPARED.target * cpus, BATCH_SHARE * cpus
        )
        stage.narrator.write_line(
            f"all-or-nothing and precise throttling above {policies.COMPARED.waterline:.0%} of the machine's CPU: "
            f"{BATCH_PODS} batch pods with a demand of {BATCH_SHARE:.0%} of it, surges of {rates.surge:.0f} requests/s"
        )
        deadline = time.monotonic() + _PAIR_SECONDS * turns
        place = ContestStage(stage.api, stage.kernel, stage.narrator, stage.workloads)
        with measured() as other:
            found = await Contest(place, bench.port, rates.surge, rates.rest, deadline).perform(batch)
        await stage.workloads.stop_all()
    if not found.outcomes:
        return PoliciesScene(left_out=found.left_out or "no surge was measured", comparison=found)
    return PoliciesScene(turns=(Turn(variant="all surges", other=other.found),), comparison=found)


def report(scene: PoliciesScene) -> SceneReport:
    """Returns the comparison as a table with a row per figure, how the figures are defined, and the goals that the
    precise policy missed or that could not be measured."""
    found = scene.comparison
    if not found.outcomes:
        return SceneReport(sentences=tuple(versus.lines(found)), not_measurable=tuple(versus.not_measured(found)))
    return SceneReport(
        title=versus.title_of(found),
        columns=versus.columns_of(found),
        rows=tuple(versus.rows_of(found)),
        sentences=tuple(versus.lines(found)),
        failures=tuple(versus.failures(found)),
        not_measurable=tuple(versus.not_measured(found)),
    )


POLICIES: Final = DemoScene(
    name="policies",
    plan="two throttle policies in turns over the same surges: all or nothing, and precise",
    turns=2,
    seconds=lambda turns: _OVERHEAD_SECONDS + _PAIR_SECONDS * turns,
    result=PoliciesScene,
    perform=perform,
    report=report,
    picture=None,
    optional=True,
)
