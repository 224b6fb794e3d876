"""`slackwater why`: the sum behind a number, and the way from a cause to its effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from slackwater.cli.output import UNKNOWN, Format, amount, clock_time, colours_wanted, errors_to_stderr, print_object
from slackwater.model.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

BAR_CELLS = 32
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def command(
    target: Annotated[str, typer.Argument(metavar="node/NAME|decision/ID", help="what to explain")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="batch-cpu, batch-memory, cpu, …")] = "batch-cpu",
    at: Annotated[str | None, typer.Option("--at", help="as it was then: 2026-01-05T10:32:00Z, or -5m")] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="json and yaml are the API's object")] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Explain a number of a node, or what came of a decision.

    Examples: `slackwater why node/edge-7 batch-cpu --at -5m`, `slackwater why decision/0198c2d4-…`
    """
    from slackwater.cli.client import reading

    with errors_to_stderr():
        noun, slash, name = target.partition("/")
        if not slash or not name or noun not in ("node", "nodes", "no", "decision", "decisions", "dec"):
            raise InvalidInput(f"{target!r} cannot be explained; allowed: node/NAME or decision/ID")
        with reading(server) as reader:
            if noun.startswith("no"):
                answer = reader.get("/v1/why", {"node": name, "subject": subject, "at": at})
            else:
                answer = reader.get(f"/v1/decisions/{quote(name, safe='')}/chain")
        if output in (Format.JSON, Format.YAML):
            print_object(answer, output)
        elif noun.startswith("no"):
            print_waterfall(_console(), answer)
        else:
            print_chain(_console(), answer)


def _console() -> Console:
    from rich.console import Console

    wanted = colours_wanted()
    return Console(color_system="auto" if wanted else None, highlight=False, width=None if wanted else 140)


def bar(before: int, after: int, low: int, high: int, cells: int = BAR_CELLS) -> str:
    """A bar from `before` to `after` on the scale `low`..`high`, `cells` wide, starting at whole cells.

    A value that is not zero is never invisible.
    """
    span = max(high - low, 1)
    start, end = sorted(((min(before, after) - low) / span, (max(before, after) - low) / span))
    first = min(int(start * cells), cells - 1)
    eighths = round((end * cells - first) * 8)
    if before != after:
        eighths = max(eighths, 1)
    full, rest = divmod(min(eighths, (cells - first) * 8), 8)
    return (" " * first + "█" * full + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def print_waterfall(console: Console, answer: Mapping[str, Any]) -> None:
    """Terms, their bars, the running total, where each came from, and whether the sum is right."""
    from rich.table import Table
    from rich.text import Text

    rows, unit = answer["waterfall"], answer["unit"]
    ends = [0, answer["result"], *(row["running_after"] for row in rows)]
    low, high = min(ends), max(ends)
    title = Text.assemble((f"{answer['subject']} of node {answer['node']}: ", "bold"))
    title.append(amount(answer["result"], unit), style="bold cyan")
    console.print(title)
    record = answer["record"]
    console.print(f"in force since {clock_time(answer['in_force_since'])}, {record['reason']}, rule {record['rule']}")
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False)
    for name, side in (("TERM", "left"), ("VALUE", "right"), ("", "left"), ("TOTAL", "right"), ("SOURCE", "left")):
        table.add_column(name, justify=side, no_wrap=name != "SOURCE")  # type: ignore[arg-type]  # literals above
    for row in rows:
        drawn = Text(bar(row["running_before"], row["running_after"], low, high), style=_style(row["value"]))
        sign = "+" if row["value"] > 0 else ""
        table.add_row(
            Text(row["name"]),
            sign + amount(row["value"], unit),
            drawn,
            amount(row["running_after"], unit),
            _source(row),
        )
    total = Text(bar(0, answer["result"], low, high), style="bold cyan")
    table.add_row(Text("result", style="bold"), amount(answer["result"], unit), total, "", _check(answer["adds_up"]))
    console.print(table)
    _print_rest(console, record)


def _style(value: int) -> str:
    return "green" if value >= 0 else "yellow"


def _source(row: Mapping[str, Any]) -> Text:
    from rich.text import Text

    parts = [row["note"]] if row["note"] else []
    if row["source"]:
        parts.append(row["source"] + (f" at {clock_time(row['observed_at'])}" if row["observed_at"] else ""))
    return Text("; ".join(parts), style="dim")


def _check(right: bool) -> Text:
    from rich.text import Text

    return Text("the terms add up", style="green") if right else Text("THE TERMS DO NOT ADD UP", style="bold red")


def _print_rest(console: Console, record: Mapping[str, Any]) -> None:
    from rich.text import Text

    if record["inputs"]:
        console.print(Text("inputs", style="bold"))
    for each in record["inputs"]:
        value = UNKNOWN if each["value"] is None else f"{each['value']} {each['unit']}".strip()
        when = f" at {clock_time(each['observed_at'])}" if each["observed_at"] else ""
        console.print(Text(f"  {each['name']} = {value}", end=""), Text(f"  {each['source']}{when}", style="dim"))
    for each in record["alternatives"]:
        console.print(Text(f"not chosen: {each['what']} ({each['rejected_because']})"))
    console.print(Text(f"decision {record['id']}", style="dim"))


def print_chain(console: Console, answer: Mapping[str, Any]) -> None:
    """One line per step, with the seconds since the first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False)
    table.add_column("SECONDS", justify="right")
    for name in ("TIME", "STEP", "WHAT"):
        table.add_column(name)
    for step in answer["steps"]:
        seconds = UNKNOWN if step["seconds"] is None else f"+{step['seconds']:.3f}"
        table.add_row(seconds, clock_time(step["at"]), Text(step["kind"], style="bold"), Text(step["summary"]))
    console.print(table)
    if not answer["complete"]:
        console.print(Text("the chain is not complete yet: ask again in a few seconds", style="yellow"))
