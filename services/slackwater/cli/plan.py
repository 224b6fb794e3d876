"""`slackwater plan`: the moves that a descheduler profile would propose now, step by step."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from slackwater.cli.output import Format, Item, TableColumn, errors_to_stderr, print_object, table

COLUMNS = (
    TableColumn("STEP", lambda step: str(step["number"]), right=True),
    TableColumn("POD", lambda step: f"{step['namespace']}/{step['pod']}"),
    TableColumn("FROM", lambda step: _loads(step, "node")),
    TableColumn("TO", lambda step: _loads(step, "target")),
    TableColumn("GAIN", lambda step: f"{step['gain'] * 100:+.1f}%", right=True),
    TableColumn("PLUGIN", lambda step: str(step["plugin"])),
    TableColumn("WHY", lambda step: str(step["reason"])),
)


def command(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="name of a DeschedulerProfile")],
    output: Annotated[Format, typer.Option("-o", "--output", help="json and yaml are the API's object")] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Show which pods a descheduler profile would propose to move now, and why not more. Each step is checked after
    those before it: the loads of both nodes, and what it gains. Nothing is recorded, published or moved.

    Example: `slackwater plan balance`
    """
    from slackwater.cli.client import reading

    with errors_to_stderr(), reading(server) as reader:
        answer = reader.get(f"/v1/descheduling/plans/{quote(profile, safe='')}")
        if output in (Format.JSON, Format.YAML):
            print_object(answer, output)
        else:
            print("\n".join(lines(answer)))


def lines(answer: Item) -> list[str]:
    """The plan as text."""
    dry = ", dry run" if answer["dry_run"] else ""
    heading = (
        f"plan {answer['id']} of {answer['profile']} (generation {answer['generation']}{dry}) over {answer['nodes']:,} "
        f"nodes and {answer['pods']:,} pods at {answer['made_at']}"
    )
    steps = [{**step, "number": number} for number, step in enumerate(answer["steps"], 1)]
    shown = [heading, *(table(steps, COLUMNS, wide=False, headers=True) if steps else ["no move is worth it now"])]
    shown += [f"pool {pool}: {why.replace('_', ' ')}" for pool, why in answer["pools"].items()]
    if answer["refusals"]:
        counted = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in answer["refusals"].items())
        shown.append(f"not proposed: {counted}")
    return [*shown, *(f"in a loop: {workload}" for workload in answer["looping"])]


def _loads(step: Item, side: str) -> str:
    name = step[side]
    return f"{name} {step[f'{side}_load_before']:.0%} -> {step[f'{side}_load_after']:.0%}" if name else "-"
