"""The figure `policies`: what both policies came to, and the three goals of the precise one as targets."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.bench import stack
from tests.bench.policies.comparison import PolicyComparison
from tests.bench.policies.contest import Contest, ContestStage
from tests.bench.policies.documents import PRECISE
from tests.bench.verdict import Scale, Target

from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.demo.api import Api
from slackwater.demo.machine.kernel import Kernel
from slackwater.demo.machine.request_bench import REQUEST_SECONDS, running_bench
from slackwater.demo.machine.workloads import Workloads
from slackwater.demo.narrator import Narrator
from slackwater.demo.stage import Stage
from slackwater.runtime.state import Endpoint

P99_FACTOR, MOST_LOST_ABOVE_NEEDED, BELOW_WITHIN_SECONDS = 1.2, 0.15, 2.0
_PAIR_SECONDS: Final = 55.0
_SETTINGS: Final = {"SLACKWATER_AGENT_REPORT_SECONDS": "1"}


def measure(state_dir: Path, surges: int) -> dict[str, Any]:
    """Both policies in turns over so many surges each. Raises PermissionError without writable cgroups."""
    if (reason := find_hierarchy().why_unwritable()) is not None:
        raise PermissionError(f"policies are compared on real cgroups: {reason}")
    with stack.running(state_dir, settings=_SETTINGS) as (_, endpoint):
        return judged(asyncio.run(_compared(endpoint, state_dir, surges)))


async def _compared(endpoint: Endpoint, state_dir: Path, surges: int) -> PolicyComparison:
    cpus = len(os.sched_getaffinity(0))
    async with Api(endpoint, datetime.now(UTC), platform.node()) as api:
        stage = Stage(api, Narrator(), Workloads(state_dir, cpus), Kernel.of(state_dir))
        try:
            async with running_bench(stage, 500 * cpus) as bench:
                contest_stage = ContestStage(api, stage.kernel, stage.workloads, _write_line)
                deadline = time.monotonic() + _PAIR_SECONDS * surges
                return await Contest(contest_stage, bench.port, REQUEST_SECONDS, deadline).perform()
        finally:
            await stage.workloads.stop_all()


def _write_line(text: str) -> None:
    sys.stderr.write(f"  {text}\n")


def judged(comparison: PolicyComparison) -> dict[str, Any]:
    """The figure with its targets. A precise policy that never acted met none of them."""
    found = comparison.model_dump(mode="json")
    outcome = comparison.outcomes.get(PRECISE)
    if outcome is None or not outcome.actions:
        return {**found, "targets": (Target("surges in which precise acted", 0, 1, at_least=True),)}
    alone = comparison.alone_p99_ms
    times_alone = None if outcome.p99_ms is None or not alone else outcome.p99_ms / alone
    targets = [
        Target("precise: p99 over that of prod alone", times_alone, P99_FACTOR),
        Target("precise: lost above needed", outcome.above_needed_ratio, MOST_LOST_ABOVE_NEEDED),
        Target("precise: never below the waterline", outcome.never_below, 0),
    ]
    if outcome.crossed > outcome.never_below:
        below = outcome.below_p99_seconds
        targets.append(Target("precise: below the waterline p99", below, BELOW_WITHIN_SECONDS, "s", Scale.TIME))
    return {**found, "targets": tuple(targets)}
