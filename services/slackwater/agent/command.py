"""The composition root of `slackwater exec`: flags to a pod, the pod to this machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from slackwater.agent.adapters.linux.environment import workload_environment
from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.machine import online_cpus
from slackwater.agent.adapters.linux.supervise import (
    AS_HERE,
    NOT_PLACED,
    Guard,
    Surroundings,
    run_managed,
    run_unmanaged,
)
from slackwater.agent.adapters.linux.workload_files import read_template
from slackwater.agent.adapters.placement_files import read_placements
from slackwater.agent.domain.admission import Command, admit, cfs_period_us, cpu_limit_milli
from slackwater.agent.domain.workload_template import WorkloadTemplate
from slackwater.agent.usecases.preview_placement import preview_placement
from slackwater.kernels.topology.plan_replay import basis_of
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.identifiers import new_id
from slackwater.runtime.state import StateDir


def run_command(
    command: Command, state_dir: Path, guard: Guard | None = None, surroundings: Surroundings = AS_HERE
) -> int:
    """Run the command as a managed workload; its exit code. Raises InvalidInput that names the wrong flag.

    `guard` looks every second whether the command may go on.
    """
    pod, limit = admit(command, new_id(), datetime.now(UTC)), cpu_limit_milli(command)
    period_us = cfs_period_us(command)
    hierarchy = find_hierarchy()
    reason = hierarchy.why_unwritable()
    if reason is not None:
        sys.stderr.write(f"slackwater exec: runs unmanaged: {reason}\n")
        return run_unmanaged(command.arguments, guard, surroundings)
    try:
        layout = _layout(hierarchy, state_dir)
    except (Misconfigured, OSError) as error:
        sys.stderr.write(f"slackwater exec: runs unmanaged: {error}\n")
        return run_unmanaged(command.arguments, guard, surroundings)
    return run_managed(layout, pod, command.arguments, limit, period_us, guard, surroundings)


def preview_command(command: Command, state_dir: Path) -> int:
    """Print the CPUs that the command would have here; the exit code that a refusal has. Raises InvalidInput that names
    the wrong flag, Unavailable where no agent places pods."""
    pod = admit(command, new_id(), datetime.now(UTC))
    answer = read_placements(StateDir(state_dir).agent_folder()) or {"off": "no agent has placed pods here"}
    if answer.get("off"):
        raise Unavailable(f"{pod.name}: would run on any CPU: {answer['off']}", code="not_placed")
    preview = preview_placement(basis_of({**answer, "now": time.monotonic()}), pod)
    if preview.refused:
        sys.stderr.write(f"slackwater exec: {pod.name}: would be refused: {preview.refused}\n")
        return NOT_PLACED
    sys.stdout.write(f"{pod.name}: would run on CPUs {preview.cpus}\n")
    sys.stdout.writelines(f"{decision.sentence()}\n" for decision in preview.pools if decision.resized)
    return 0


def run_file(file: Path, state_dir: Path) -> int:
    """Run the workload that a file describes; its exit code. Raises InvalidInput that names the wrong field."""
    template = read_template(file)
    surroundings = Surroundings({**os.environ, **template.environment}, template.directory)
    return run_command(template.command, state_dir, surroundings=surroundings)


def run_template(
    template: WorkloadTemplate, state_dir: Path, instance: str, uid: str, labels: Mapping[str, str], begins_by: float
) -> int:
    """Run a described workload as the pod `uid` with these labels beside its own; its exit code. It finds what it
    declares, and nothing of the agent's environment.

    Raises InvalidInput for a field that `slackwater exec` would refuse, Misconfigured where nothing can be managed: an
    agent would not see the pod that it has started.
    """
    command = replace(template.command, labels=(*template.command.labels, *(f"{k}={v}" for k, v in labels.items())))
    pod, limit = admit(command, uid, datetime.now(UTC)), cpu_limit_milli(command)
    layout = _layout(find_hierarchy(), state_dir, instance)
    surroundings = Surroundings(workload_environment(template.environment), template.directory, begins_by)
    return run_managed(layout, pod, command.arguments, limit, cfs_period_us(command), surroundings=surroundings)


def _layout(hierarchy: Hierarchy, state_dir: Path, instance: str | None = None) -> Layout:
    """Raises Misconfigured, OSError."""
    state = StateDir(state_dir)
    agent_folder = state.agent_folder()
    instance = instance or os.environ.get("SLACKWATER_AGENT_INSTANCE") or state.instance_id()
    layout = Layout(hierarchy, instance, agent_folder, len(online_cpus()))
    layout.ensure_tiers()
    return layout
