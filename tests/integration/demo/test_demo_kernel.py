"""The demo's own witness on the real kernel: it sees quotas change and pressure rise, and what was left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.bench.policies.watch import QuotaWatch

from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.domain.admission import Command, admit
from slackwater.demo.machine.kernel import Kernel
from slackwater.runtime.state import StateDir

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        find_hierarchy().why_unwritable() is not None,
        reason="cgroups cannot be written: run the tests as root, or below a delegated tree",
    ),
]


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[tuple[Kernel, Path]]:
    state = StateDir(tmp_path)
    layout = Layout(find_hierarchy(), state.instance_id(), tmp_path / "agent", os.cpu_count() or 1)
    made = admit(
        Command(tier="batch", cpu="1", memory="64Mi", workload="probe", name="probe", arguments=("true",)),
        "probe-uid",
        datetime.now(UTC),
    )
    PodRegistry(layout.agent_dir / "pods").add(Entry(made, process_of(os.getpid()), layout.instance))
    layout.make_pod(made.tier, made.uid)
    yield Kernel.of(tmp_path), layout.cpu_directory(layout.pod(made.tier, made.uid))
    layout.hierarchy.remove(layout.pod(made.tier, made.uid))
    layout.remove_unused()


def test_a_lowered_quota_is_seen_and_so_is_its_return(pod: tuple[Kernel, Path]) -> None:
    kernel, folder = pod
    pure_v2 = kernel.hierarchy.pure_v2
    file = folder / ("cpu.max" if pure_v2 else "cpu.cfs_quota_us")
    with QuotaWatch(kernel) as watch:
        assert watch.originals == {"probe": None}
        file.write_text("50000 100000" if pure_v2 else "50000")
        deadline = time.monotonic() + 60
        while watch.all_original() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert watch.now() == {"probe": 500}
        file.write_text("max 100000" if pure_v2 else "-1")
        while not watch.all_original() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [change.limit_milli for change in watch.changes] == [500, None]


def test_cpu_and_remains_are_read(pod: tuple[Kernel, Path]) -> None:
    kernel, _ = pod
    procs = [folder / "batch" / "probe-uid" / "cgroup.procs" for folder in kernel.hierarchy.directories(kernel.root)]
    before = kernel.read()
    command = [sys.executable, "-c", "import time; time.sleep(0.2); b = time.process_time()\nwhile time.process_time() < b + 0.2: pass\ntime.sleep(30)"]  # fmt: skip # noqa: E501
    process = subprocess.Popen(command)
    try:
        for file in procs:
            file.write_text(str(process.pid))
        deadline = time.monotonic() + 60
        while kernel.read().batch_cpu - before.batch_cpu < 0.19 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert kernel.read().batch_cpu - before.batch_cpu >= 0.19
        assert any(f"process {process.pid}" in line for line in kernel.remains())
    finally:
        process.kill()
        process.wait()
    assert any(line.startswith("cgroup ") for line in kernel.remains())
