"""Prod grows into a full parent beside a busy CPU and a slow disk: batch is evicted with its checkpoint, not killed.

The turn is that of the demo's scene memory, on a whole `slackwater up`. Beside it a prod pod of two busy loops leaves
batch what it does not want, and the disk that holds all state is slow: few writes a second, and other writers on it.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]
from rich.console import Console
from tests.faults.disk import SlowDisk
from tests.faults.oracle import Findings
from tests.faults.scenario import Result, Skipped, Strictness
from tests.faults.supervisor import Program, free_port, slackwater, until

from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.demo.api import NODEQOS, Api
from slackwater.demo.machine.kernel import Kernel
from slackwater.demo.machine.workloads import Workloads
from slackwater.demo.narrator import Narrator
from slackwater.demo.scenes.memory import LIMIT_MIB, MEMORY, MIB, SLACKWATER, MemoryTurn, opened
from slackwater.demo.stage import Stage
from slackwater.model.errors import NotFound
from slackwater.runtime.state import StateDir

BUSY_LOOPS: Final = 2
DISK_WRITERS: Final = 2
WRITES_PER_SECOND: Final = 20
"""Of the whole instance: its database, broker, services and agent."""
_UP_SECONDS, _SETTLE_SECONDS = 120.0, 60.0
_BUSY: Final = """
import os, sys
for _ in range(int(sys.argv[1]) - 1):
    if not os.fork():
        break
while True:
    pass
"""
_SYNC: Final = """
import os, sys
block = os.urandom(1 << 20)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
while True:
    os.lseek(file, 0, os.SEEK_SET)
    for _ in range(64):
        os.write(file, block)
        os.fsync(file)
"""


async def memory_growth(folder: Path, strictness: Strictness) -> Result:
    """One turn. Afterwards each batch pod runs on or has ended with its checkpoint, and prod has grown to its end."""
    if (reason := find_hierarchy().why_unwritable()) is not None:
        raise Skipped(f"real cgroups: {reason}")
    if (there := psutil.virtual_memory().available >> 20) < MEMORY.memory_mib:
        raise Skipped(f"{there} MiB of memory are available, it needs {MEMORY.memory_mib}")
    result, state = Result(), folder / "state"
    async with AsyncExitStack() as stack:
        settings = {
            "SLACKWATER_STATE_DIR": str(state),
            "SLACKWATER_AGENT_REPORT_SECONDS": "1",
            "SLACKWATER_AGENT_MEMORY_BYTES": str(LIMIT_MIB * MIB),
        }
        command = [*slackwater(), "up", "--driver", "linux", "--port", str(free_port())]
        whole = Program("up", command, folder, settings)
        stack.push_async_callback(whole.stop)
        await whole.start()
        stage = await _stage(stack, state)
        await _apply(stage)
        loops = (sys.executable, "-c", _BUSY, str(BUSY_LOOPS))
        await stage.workloads.pod("prod", "busy", 100, "64Mi", *loops)
        with SlowDisk(folder, WRITES_PER_SECOND) as disk, _writers(folder):
            disk.hold(whole.pid)
            async with opened(stage) as run_turn:
                turn = await run_turn(SLACKWATER)
        _judge(result, turn)
        await stage.workloads.stop_all()
        result.promise("nothing died beside", not whole.unasked_exits)
        result.promise("its stop was orderly", await whole.stop() == 0)
        await until(_none_left(Kernel.of(state)), _SETTLE_SECONDS, "no cgroup of it is left")
    return result


def _none_left(kernel: Kernel) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return not kernel.remains()

    return look


async def _stage(stack: AsyncExitStack, state: Path) -> Stage:
    """What the scenes of the demo work with, once the instance is up and has its node."""

    async def is_up() -> bool:
        try:
            StateDir(state).running_endpoint()
        except NotFound:
            return False
        return True

    await until(is_up, _UP_SECONDS, "the instance is up", 0.2)
    api = await stack.enter_async_context(Api(StateDir(state).running_endpoint(), datetime.now(UTC), platform.node()))

    async def has_node() -> bool:
        return platform.node() in await api.nodes()

    await until(has_node, _UP_SECONDS, "its node is known", 0.2)
    workloads = Workloads(state, BUSY_LOOPS)
    stack.push_async_callback(workloads.stop_all)
    return Stage(api, Narrator(Console(file=StringIO())), workloads, Kernel.of(state))


async def _apply(stage: Stage) -> None:
    """The policy of the scene."""
    [variant] = [variant for variant in MEMORY.variants if variant.name == SLACKWATER]
    present = await stage.api.document(*NODEQOS) or {"spec": {}}
    for kind, name, spec in (*variant.documents, (*NODEQOS, {**present["spec"], **variant.nodeqos})):
        await stage.api.put(kind, name, spec)


@contextmanager
def _writers(folder: Path) -> Iterator[None]:
    """Writers that sync every MiB, on the disk of the folder."""
    end_with_parent = (sys.executable, "-m", "slackwater.demo.programs.die_with_parent")
    commands = [
        (*end_with_parent, sys.executable, "-c", _SYNC, str(folder / f"block-{number}"))
        for number in range(DISK_WRITERS)
    ]
    writers = [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def _judge(result: Result, turn: MemoryTurn) -> None:
    endings = Counter(turn.batch)
    evicted = endings["checkpoint"] + endings["killed"]
    result.findings = Findings(offered=evicted, acked=endings["checkpoint"], lost=endings["killed"])
    result.facts |= {"prod_mib": turn.prod_mib, "slowest_ms": turn.slowest_ms, "batch": dict(endings)}
    result.promise("prod is not killed", not turn.prod_killed)
    result.promise("no batch pod is killed without its checkpoint", not endings["killed"])
    result.promise("batch is evicted with grace", endings["checkpoint"] > 0)
