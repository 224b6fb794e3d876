"""A host application in a real cgroup of this machine: measured, told apart from the system, and left as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from agent_machine import Machine, until

from slackwater.agent.domain.host_apps import HostApplication
from slackwater.events.measures import HostAppUsage
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier

pytestmark = pytest.mark.root
BUSY = "import time\nwhile True:\n    end = time.time() + 0.01\n    while time.time() < end: pass\n    time.sleep(0.03)"
"""A quarter of a CPU, or what it gets."""


@pytest.fixture
def app(machine: Machine) -> Iterator[HostApplication]:
    """A busy process in a cgroup outside Slackwater."""
    cgroup = f"hostapp-test-{os.getpid()}"
    directories = machine.hierarchy.directories(cgroup)
    for directory in directories:
        directory.mkdir()
    enter = "; ".join(f"echo $$ > {directory}/cgroup.procs" for directory in directories)
    process = subprocess.Popen(["sh", "-c", f'{enter}; exec "$@"', "sh", sys.executable, "-c", BUSY])
    try:
        yield HostApplication("busy", Tier.PROD, cgroup)
        assert process.poll() is None, "it is not touched"
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for directory in directories:
            directory.rmdir()


def knobs(machine: Machine, app: HostApplication) -> dict[Path, str]:
    """What could be written there: limits and weights."""
    names = ("cpu.shares", "cpu.cfs_quota_us", "cpu.weight", "cpu.max", "memory.limit_in_bytes", "memory.max")
    found = [directory / name for directory in machine.hierarchy.directories(app.cgroup) for name in names]
    return {path: path.read_text() for path in found if path.exists()}


def is_busy(app: HostAppUsage) -> bool:
    return app.usage.cpu_milli.max > 0 and app.usage.memory_bytes.last > 2**20


async def test_it_is_measured_apart_from_the_system_and_never_written(machine: Machine, app: HostApplication) -> None:
    missing = HostApplication("missing", Tier.BATCH, "no/such/cgroup")
    before = knobs(machine, app)
    async with machine.agent(host_applications=(app, missing)):

        def measured() -> list[tuple[UsageReported, HostAppUsage]]:
            reports = [event.data for event in machine.published(UsageReported)]
            return [(one, app) for one in reports for app in one.host_apps if is_busy(app)]

        [(report, found), *_] = await until(measured)
    assert (found.name, found.tier) == ("busy", Tier.PROD)
    assert [one.name for one in report.host_apps] == ["busy"], "what is not there is absent, not zero"
    assert report.system_usage is not None
    memory = report.system_usage.memory_bytes.last + found.usage.memory_bytes.last
    assert memory == report.node_usage.memory_bytes.last, "a machine without pods: nothing counts twice, or is lost"
    assert knobs(machine, app) == before
