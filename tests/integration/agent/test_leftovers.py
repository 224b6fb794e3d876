"""What a killed instance left in real cgroups is removed, and nothing of another instance."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from agent_machine import Machine, until

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.adapters.linux.processes import members_of
from slackwater.agent.leftovers import remove_leftovers


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def test_a_process_can_enter_cgroups_here_and_the_probe_goes(machine: Machine) -> None:
    assert machine.hierarchy.why_not_entered() is None
    assert [path for tree in machine.hierarchy.trees() for path in tree.glob("slackwater-probe-*")] == []


def test_a_tree_that_refuses_new_cgroups_is_named() -> None:
    reason = Hierarchy(cpu=Path("/proc")).why_not_entered()
    assert reason is not None
    assert "/proc" in reason


async def test_a_process_that_outlived_its_kill_ends_and_its_cgroups_go(machine: Machine) -> None:
    command = machine.execute("sh", "-c", "setsid sleep 1000 & wait")
    await until(lambda: len(members_of(machine.directories())) >= 2)
    command.kill()  # the shell dies with it, the command of its own session does not
    command.wait()
    left = await until(lambda: members_of(machine.directories()))
    assert remove_leftovers(machine.state_dir, "another") == ()
    assert any(map(alive, left))
    assert remove_leftovers(machine.state_dir, machine.instance) == ()
    await until(lambda: not any(map(alive, left)))
    assert machine.directories() == []
