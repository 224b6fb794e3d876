"""`slackwater plan`: the moves that a descheduler profile recommends now, kept by an id to be applied later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from slackwater.cli.dry_run import TryingCommand
from slackwater.cli.output import Format, Item, TableColumn, clock_time, errors_to_stderr, print_object, table
from slackwater.model.errors import InvalidInput, Misconfigured

if TYPE_CHECKING:
    from slackwater.cli.client import Reader

COMMAND = TryingCommand
PLANS = "/v1/move-plans"
RECOMMENDED = "recommended"
_HEAD = (
    TableColumn("STEP", lambda step: str(step["number"]), right=True),
    TableColumn("POD", lambda step: f"{step['namespace']}/{step['pod']}"),
    TableColumn("FROM", lambda step: _loads(step, "node")),
    TableColumn("TO", lambda step: _loads(step, "target")),
    TableColumn("GAIN", lambda step: _percent(step["gain"]), right=True),
)
_WHY = (
    TableColumn("PLUGIN", lambda step: str(step["plugin"])),
    TableColumn("WHY", lambda step: str(step["reason"])),
)
PREVIEW = (*_HEAD, *_WHY)
OPEN = (*_HEAD, TableColumn("FEASIBLE", lambda step: str(step["problem"] or "yes")), *_WHY)
TAKEN = (
    *_HEAD,
    TableColumn("MEASURED", lambda step: _percent(step["measured_gain"]), right=True),
    TableColumn(
        "STATE", lambda step: " ".join(filter(None, (step["phase"], step["outcome"]))).replace("_", " ") or "-"
    ),
    TableColumn("JOB", lambda step: str(step["job"] or "-")),
)
LISTED = (
    TableColumn("PLAN", lambda plan: str(plan["id"])),
    TableColumn("PROFILE", lambda plan: str(plan["profile"])),
    TableColumn("STATE", lambda plan: str(plan["state"])),
    TableColumn("MADE", lambda plan: clock_time(plan["made_at"])),
    TableColumn("BY", lambda plan: "request" if plan["cycle"] is None else f"cycle {plan['cycle']}"),
    TableColumn("STEPS", lambda plan: str(plan["steps"]), right=True),
    TableColumn("GAIN", lambda plan: _percent(plan["expected_gain"]), right=True),
    TableColumn("MEASURED", lambda plan: _percent(plan["measured_gain"]), right=True),
)


def command(
    profile: Annotated[
        str | None, typer.Argument(metavar="PROFILE", help="name of a DeschedulerProfile; without it: kept plans")
    ] = None,
    plan: Annotated[str | None, typer.Option("--id", metavar="PLAN_ID", help="show a kept plan as it is now")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="do not keep the plan")] = False,
    output: Annotated[Format, typer.Option("-o", "--output", help="json and yaml are the API's object")] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Show which pods a descheduler profile would propose to move now, and why not more. Each step is checked after
    those before it: the loads of both nodes, and what it gains. Nothing is moved. The plan is kept for a day:
    `slackwater apply --plan PLAN_ID` proposes its moves, unless the cluster has changed against it.

    Examples: `slackwater plan balance`, `slackwater plan` lists kept plans, `slackwater plan --id PLAN_ID` shows
    whether its steps are still feasible, and after the moves what they gained.
    """
    from slackwater.cli.client import reading

    with errors_to_stderr():
        if profile is not None and plan is not None:
            raise InvalidInput("--id shows a kept plan: leave out the profile")
        with reading(server) as reader:
            answer = _read(reader, profile, plan, dry_run=dry_run)
        if output in (Format.JSON, Format.YAML):
            print_object(answer, output)
        elif profile is None and plan is None:
            print("\n".join(list_lines(answer["items"])))
        else:
            print("\n".join(lines(answer)))


def _read(reader: Reader, profile: str | None, plan: str | None, *, dry_run: bool) -> Any:
    """The plans, one of them, or a new one; a token that may only read gets one that is not kept."""
    from slackwater.cli.client import HttpReader

    if plan is not None:
        return reader.get(f"{PLANS}/{quote(plan, safe='')}")
    if profile is None:
        return reader.get(PLANS)
    if isinstance(reader, HttpReader) and not dry_run:
        try:
            return reader.send("POST", PLANS, body={"profile": profile})
        except Misconfigured as error:
            if error.code != "forbidden":
                raise
    return reader.get(f"/v1/descheduling/plans/{quote(profile, safe='')}")


def lines(answer: Item) -> list[str]:
    """The plan as text; a preview has no state."""
    steps = [{**step, "number": number} for number, step in enumerate(answer["steps"], 1)]
    state = answer.get("state")
    columns = PREVIEW if state is None else OPEN if state == RECOMMENDED else TAKEN
    shown = [_heading(answer), *(_table(steps, columns) if steps else ["no move is worth it now"])]
    if state is not None and steps:
        shown.append(_figures(answer))
    shown += [f"pool {pool}: {why.replace('_', ' ')}" for pool, why in answer["pools"].items()]
    if answer["refusals"]:
        counted = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in answer["refusals"].items())
        shown.append(f"not proposed: {counted}")
    shown += [f"in a loop: {workload}" for workload in answer["looping"]]
    return shown if state is None or not steps else [*shown, *_closing(answer)]


def _heading(answer: Item) -> str:
    notes = [f"generation {answer['generation']}", *(["dry run"] if answer.get("dry_run") else [])]
    state = answer.get("state")
    kept = "" if state is None or not answer["steps"] else f", {state}"
    return (
        f"plan {answer['id']} of {answer['profile']} ({', '.join(notes)}) over {answer['nodes']:,} "
        f"nodes and {answer['pods']:,} pods at {answer['made_at']}{kept}"
    )


def _figures(answer: Item) -> str:
    gained = answer["measured_gain"]
    gain = f"gain {_percent(answer['expected_gain'])} expected"
    spread = f"imbalance {answer['imbalance_before']:.1%} -> {answer['imbalance_expected']:.1%} expected"
    if answer["imbalance_measured"] is not None:
        gain += f", {'none' if gained is None else _percent(gained)} measured"
        spread += f", {answer['imbalance_measured']:.1%} measured"
    return f"{gain} per step; {spread}"


def _closing(answer: Item) -> list[str]:
    """What can be done with the plan, or why nothing can."""
    if answer["state"] == RECOMMENDED and answer["obstacles"]:
        return [f"it cannot be carried out: {obstacle}" for obstacle in answer["obstacles"]]
    if answer["state"] == RECOMMENDED and not answer["changes"]:
        return [f"apply it: slackwater apply --plan {answer['id']}"]
    if answer["state"] == RECOMMENDED:
        return [*(f"changed: {change}" for change in answer["changes"]), "it is stale: make a new plan"]
    return [f"stale: {answer['why']}"] if answer["why"] else []


def list_lines(plans: Sequence[Item]) -> list[str]:
    """The kept plans as text."""
    return _table(plans, LISTED) if plans else ["no plan is kept: `slackwater plan PROFILE` makes one"]


def _table(rows: Sequence[Item], columns: Sequence[TableColumn]) -> list[str]:
    return table(rows, columns, wide=False, headers=True)


def _loads(step: Item, side: str) -> str:
    name = step[side]
    return f"{name} {step[f'{side}_load_before']:.0%} -> {step[f'{side}_load_after']:.0%}" if name else "-"


def _percent(gain: float | None) -> str:
    return "-" if gain is None else f"{gain * 100:+.1f}%"
