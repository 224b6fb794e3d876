"""`slackwater get topology`: the CPUs of this machine, and which pod has them, as its agent has published it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from slackwater.agent.adapters.linux.machine import machine_facts
from slackwater.agent.adapters.placement_files import read_placements
from slackwater.cli.output import Item, TableColumn, message, print_object, table
from slackwater.cli.output_form import OutputForm
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.runtime.state import StateDir, client_state_dir

_COLUMNS = (
    TableColumn("SOCKET", lambda row: str(row["socket"]), right=True),
    TableColumn("NUMA", lambda row: str(row["numa"]), right=True),
    TableColumn("CACHE", lambda row: str(row["cache"]), right=True, wide=True),
    TableColumn("CORE", lambda row: str(row["core"]), right=True),
    TableColumn("CPU", lambda row: str(row["cpu"]), right=True),
    TableColumn("PODS", lambda row: ", ".join(row["pods"])),
)


def print_topology(node: str | None, form: OutputForm, *, headers: bool) -> None:
    """Print one line per CPU, then pools and refusals. Raises NotFound where no agent has placed pods, InvalidInput for
    another node."""
    here = machine_facts("").name
    if node not in (None, here):
        raise InvalidInput(f"topology: the CPUs of {node} are read on {node}; this machine is {here}", field="name")
    answer = read_placements(StateDir(client_state_dir()).agent_folder())
    if answer is None:
        raise NotFound("topology: no agent has placed pods on this machine; start it with `slackwater agent`")
    if form.is_object:
        print_object(answer, form.form)
        return
    if answer.get("off"):
        message(f"pods have no CPUs of their own: {answer['off']}")
        return
    lines = table(list(_rows(answer)), _COLUMNS, wide=form.is_wide, headers=headers)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    for line in (*answer["pools"], *(f"{uid}: refused: {why}" for uid, why in answer["refused"].items())):
        message(line)


def _rows(answer: Mapping[str, Any]) -> Iterator[Item]:
    """Dedicated pods are marked: nothing else runs there."""
    holders: dict[int, list[str]] = {}
    for uid, placed in answer["pods"].items():
        mark = "!" if placed["kind"] == "dedicated" else ""
        for cpu in parse_cpu_list(placed["cpus"]):
            holders.setdefault(cpu, []).append(f"{uid}{mark}")
    for cpu, core, cache, numa, socket in answer["machine"]:
        pods = holders.get(cpu, [])
        yield {"socket": socket, "numa": numa, "cache": cache, "core": core, "cpu": cpu, "pods": pods}
