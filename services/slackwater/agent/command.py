"""The composition root of `slackwater exec`: flags to a pod, the pod to this machine."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.machine import online_cpus
from slackwater.agent.adapters.linux.supervise import Guard, run_managed, run_unmanaged
from slackwater.agent.domain.admission import Command, admit, cfs_period_us, cpu_limit_milli
from slackwater.model.errors import Misconfigured
from slackwater.model.identifiers import new_id
from slackwater.runtime.state import StateDir


def run_command(command: Command, state_dir: Path, guard: Guard | None = None) -> int:
    """Run the command as a managed workload; its exit code. Raises InvalidInput that names the wrong flag.

    `guard` looks every second whether the command may go on.
    """
    pod, limit = admit(command, new_id(), datetime.now(UTC)), cpu_limit_milli(command)
    period_us = cfs_period_us(command)
    hierarchy = find_hierarchy()
    reason = hierarchy.why_unwritable()
    if reason is not None:
        sys.stderr.write(f"slackwater exec: runs unmanaged: {reason}\n")
        return run_unmanaged(command.arguments, guard)
    try:
        instance = os.environ.get("SLACKWATER_AGENT_INSTANCE") or StateDir(state_dir).instance_id()
        layout = Layout(hierarchy, instance, state_dir / "agent", len(online_cpus()))
        layout.ensure_tiers()
    except (Misconfigured, OSError) as error:
        sys.stderr.write(f"slackwater exec: runs unmanaged: {error}\n")
        return run_unmanaged(command.arguments, guard)
    return run_managed(layout, pod, command.arguments, limit, period_us, guard)
