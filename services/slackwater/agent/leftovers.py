"""Ends what a killed run of an instance has left on this machine: processes, written files, cgroups."""

from __future__ import annotations

import time
from pathlib import Path

from slackwater.agent.adapters.linux.driver import LinuxDriver, linux_driver
from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.agent.adapters.linux.lock import AgentLock, agent_runs
from slackwater.agent.adapters.linux.processes import kill_all
from slackwater.agent.service import state_in
from slackwater.agent.usecases.actuate import Actuator
from slackwater.model.errors import Misconfigured
from slackwater.model.time import SystemClock

_AGENT_END_SECONDS, _CGROUP_END_SECONDS, _PAUSE_SECONDS = 15.0, 5.0, 0.05


def remove_leftovers(state_dir: Path, instance: str) -> tuple[Path, ...]:
    """Kill the instance's pods, restore the files in its journal, remove its cgroups; returns cgroups that stay.

    An agent whose parent was killed ends by itself, in order, and is waited for. Does nothing where cgroups cannot be
    written: a run there had none. Raises Misconfigured while another agent works on the directory.
    """
    hierarchy = find_hierarchy()
    if hierarchy.why_unwritable() is not None:
        return ()
    driver = linux_driver(state_dir, instance, SystemClock(), hierarchy)
    agent_dir, root = driver.layout.agent_dir, driver.layout.root
    _wait_for_agent(agent_dir)
    places = hierarchy.directories(root)
    kill_all(places)
    if (agent_dir / "journal").exists():
        _restore(agent_dir, driver)
    deadline = time.monotonic() + _CGROUP_END_SECONDS  # a killed process holds its cgroup for a moment
    while not hierarchy.remove(root, with_children=True) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
    driver.layout.remove_unused()
    return tuple(place for place in places if place.exists())


def _wait_for_agent(agent_dir: Path) -> None:
    deadline = time.monotonic() + _AGENT_END_SECONDS
    while agent_runs(agent_dir):
        if time.monotonic() >= deadline:
            raise Misconfigured(f"an agent still works on {agent_dir}: stop it first")
        time.sleep(_PAUSE_SECONDS)


def _restore(agent_dir: Path, driver: LinuxDriver) -> None:
    """Write back what the journal says, as an agent does at its start."""
    lock = AgentLock(agent_dir)
    lock.acquire()
    try:
        journal = state_in(agent_dir, lock).journal
        Actuator(driver, journal).recover()
        journal.close()
    finally:
        lock.release()
