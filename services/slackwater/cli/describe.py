"""`slackwater describe KIND NAME`: prints one node, resource or peak model in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer

from slackwater.cli.complete import complete_name, complete_noun
from slackwater.cli.condition_columns import duplicate_lines, left_out_lines, scheduling_lines
from slackwater.cli.decision_groups import GROUP, grouped
from slackwater.cli.decision_list import PATH as DECISIONS
from slackwater.cli.decision_list import question
from slackwater.cli.get import require_running_instance
from slackwater.cli.list_kinds import POD, kind_of, split_target
from slackwater.cli.list_reader import as_recorded, whole
from slackwater.cli.offer_columns import offer_lines
from slackwater.cli.output import (
    UNKNOWN,
    Format,
    Item,
    age,
    cpu,
    errors_to_stderr,
    memory,
    print_object,
    ratio,
    table,
)
from slackwater.cli.policy_columns import predictor_lines
from slackwater.cli.resource_columns import lines_of
from slackwater.model.errors import InvalidInput
from slackwater.model.plurals import counted
from slackwater.resources import catalog

READ, SHOWN = 100, 10
"""Decisions that are read, and the groups or decisions of them that are shown."""


def command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="KIND[/NAME]", help="node, predictor or a resource kind, and its name", autocompletion=complete_noun
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="name of the object; or KIND/NAME", autocompletion=complete_name),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="json and yaml: one object")] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Describe a node (facts, usage by tier, the offer in force, its pods and last decisions), a resource of any kind
    (its fields and effective values), or a peak model (its settings).

    Examples: `slackwater describe node edge-7`, `slackwater describe predictor workload-profile`
    """
    from slackwater.cli.client import reading

    with errors_to_stderr():
        noun, only = split_target(what, name)
        kind = kind_of(noun)
        whole_objects = one_object()
        if kind.names[0] not in ("nodes", *whole_objects):
            allowed = ", ".join(whole_objects)
            raise InvalidInput(f"{what!r} cannot be described; allowed: node, {allowed}, followed by a name")
        if not only:
            raise InvalidInput(f"{what!r}: the name is missing; use `slackwater describe {noun} NAME`")
        with reading(server) as reader:
            require_running_instance(kind, reader)
            if kind.names[0] in whole_objects and kind.item_path is not None:
                found = reader.get(kind.item_path.format(quote(only, safe="")))
                _print(found, output, whole_objects[kind.names[0]](found))
                return
            node = reader.get(f"/v1/nodes/{quote(only, safe='')}")
            pods = whole(reader, f"/v1/nodes/{quote(only, safe='')}/pods")["items"]
            decisions = reader.get(DECISIONS, question(DECISIONS, only, None, None, READ, every=False))["items"]
        lines = _lines(as_recorded([node], reader)[0], pods, decisions, datetime.now(UTC))
        _print({"node": node, "pods": pods, "decisions": decisions[:SHOWN]}, output, lines)


def one_object() -> Mapping[str, Callable[[Item], list[str]]]:
    """By plural, the kinds that one object describes completely."""
    return {kind.plural: lines_of(kind) for kind in catalog.KINDS} | {"predictors": predictor_lines}


def _print(found: Any, output: Format, lines: list[str]) -> None:
    if output in (Format.JSON, Format.YAML):
        print_object(found, output)
    else:
        print("\n".join(lines))


def _lines(node: Mapping[str, Any], pods: list[Any], decisions: list[Any], now: datetime) -> list[str]:
    lines = [f"Name:      {node['name']}", f"Liveness:  {node['liveness'] or UNKNOWN}"]
    lines += duplicate_lines(node, now) + left_out_lines(node) + scheduling_lines(node, now)
    lines += _facts(node["facts"]) + _usage(node["usage"], now) + offer_lines(node["offer"], now)
    lines += ["", f"Pods ({len(pods)}):", *_indented(table(pods, POD, wide=False, headers=bool(pods)))]
    lines += [
        "",
        "Last decisions:",
        *_indented(table(grouped(decisions)[:SHOWN], GROUP, wide=False, headers=bool(decisions))),
    ]
    return lines


def _indented(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines] or ["  none"]


def _facts(facts: Mapping[str, Any] | None) -> list[str]:
    if facts is None:
        return ["Facts:     not received yet"]
    topology = facts["topology"]
    parts = {"cpus": "CPU", "cores": "core", "sockets": "socket", "numa_nodes": "NUMA node"}
    shape = ", ".join(f"{counted(topology[name], noun)}" for name, noun in parts.items())
    return [
        f"Pool:      {facts['pool'] or UNKNOWN}",
        f"Capacity:  {cpu(facts['capacity']['cpu_milli'])} cores, {memory(facts['capacity']['memory_bytes'])}",
        f"Reserved:  {cpu(facts['reserved']['cpu_milli'])} cores, {memory(facts['reserved']['memory_bytes'])}",
        f"Topology:  {shape}",
        f"System:    kernel {facts['kernel']}, cgroup {facts['cgroup_version']}",
        f"Agent:     {facts['agent_version']}, driver {facts['driver']}",
    ]


def _usage(usage: Mapping[str, Any] | None, now: datetime) -> list[str]:
    if usage is None:
        return ["Usage:     not reported yet"]
    lines = [f"Usage:     {_resources(usage['usage'])} ({age(usage['sampled_at'], now)} ago)"]
    parts = {**usage["tiers"], "system": usage["system"]}
    lines += [f"  {name + ':':9}{_resources(part)}" for name, part in parts.items() if part is not None]
    lines += [f"  {app['name'] + ' (host, ' + app['tier'] + '):':24}{_resources(app['usage'])}" for app in _apps(usage)]
    lines.append(f"Pressure:  prod {ratio(usage['prod_pressure'])}, node {ratio(usage['node_pressure'])} (CPU, some)")
    lines.append(f"Throttled: {usage['throttled_pods']} of {counted(usage['pods'], 'pod')}")
    return lines


def _apps(usage: Mapping[str, Any]) -> list[Any]:
    return list(usage["host_apps"])


def _resources(part: Mapping[str, int]) -> str:
    return f"{cpu(part['cpu_milli'])} cores, {memory(part['memory_bytes'])}"
