"""`slackwater why`: explains the sum behind a number, and the chain from a cause to its effect."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from slackwater.cli.complete import complete_subject
from slackwater.cli.decision_text import exact, print_pod, print_reasoning
from slackwater.cli.output import (
    UNKNOWN,
    Format,
    amount,
    clock_time,
    colours_wanted,
    errors_to_stderr,
    parse_time,
    print_object,
    short,
)
from slackwater.cli.tables import columns, put
from slackwater.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from slackwater.cli.client import Reader

BAR_CELLS = (12, 32)
"""The narrowest and the widest bar."""
SOURCE_CELLS = 30
"""Width of the last column before the bar grows."""
ENDLESS = 100_000
"""Width of a pipe: one row stays one line."""
_NOUNS = {
    **dict.fromkeys(("node", "nodes", "no"), "node"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("decision", "decisions", "dec"), "decision"),
    **dict.fromkeys(("quota", "quotas", "elasticquota", "eq"), "quota"),
    **dict.fromkeys(("claim", "claims"), "claim"),
    **dict.fromkeys(("migration", "migrations", "podmigrationjob", "pmj"), "migration"),
}
CPUSET = "cpuset"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="node/NAME|pod/[NAMESPACE/]NAME|decision/ID|quota/NAME|claim/ID|migration/NAME",
            help="what to explain; a pod by name or uid",
            autocompletion=complete_subject,
        ),
    ],
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="SUBJECT",
            help="nodes: batch-cpu (the default), batch-memory, mid-cpu, mid-memory, prod-cpu-peak, prod-memory-peak; "
            "cpuset, cpu and scheduling after the first decision about them; pods: cpuset",
            show_default=False,
        ),
    ] = None,
    at: Annotated[str | None, typer.Option("--at", help="at a past time: 2026-01-05T10:32:00Z, or -5m")] = None,
    node: Annotated[str | None, typer.Option("--node", help="pods: select by node among pods of the same name")] = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="pods: select by namespace")] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="json and yaml are the API's object")] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Explain a number of a node, the decisions about a pod, a decision and its effect, the runtime of a quota, or what
    was decided about a claim or the move of a pod.

    Examples: `slackwater why node/edge-7 batch-cpu --at -5m`, `slackwater why pod/encode-video-1`,
    `slackwater why pod/api-1 cpuset`, `slackwater why decision/0198c2d4-…`
    """
    from slackwater.cli.client import reading

    with errors_to_stderr():
        noun, name = _asked(target)
        if noun != "pod" and (node or namespace):
            raise InvalidInput("--node and --namespace select one of several pods: use them with pod/NAME")
        if noun != "node" and subject is not None and (noun, subject) != ("pod", CPUSET):
            raise InvalidInput(f"{subject!r}: a subject selects a number of a node: use it with node/NAME")
        if noun == "decision" and at is not None:
            raise InvalidInput("--at: not allowed with decision/NAME, which is shown with its effects; remove --at")
        if noun == "pod":
            name, namespace = _place(name, namespace)
        with reading(server) as reader:
            answer = _read(reader, noun, name, {"subject": subject, "at": at, "node": node, "namespace": namespace})
        if output in (Format.JSON, Format.YAML):
            print_object(answer, output)
        elif noun == "pod":
            print_pod(_console(), answer, at)
            if subject == CPUSET:
                _print_in_force(answer)
        elif noun == "migration":
            from slackwater.cli.migration_columns import move_why_lines

            print("\n".join(move_why_lines(answer)))
        elif noun in ("quota", "claim"):
            from slackwater.cli.quota_columns import claim_why_lines, why_lines

            print("\n".join((why_lines if noun == "quota" else claim_why_lines)(answer)))
        else:
            (print_waterfall if noun == "node" else print_chain)(_console(), answer)


def _print_in_force(answer: Mapping[str, Any]) -> None:
    """Print the record of the CPUs of the pod's node, which the pod shares or has a part of."""
    if answer["in_force"] is None:
        print(f"no CPUs were given out on node {answer['pod']['node']}: its pods run on any")
    else:
        print_waterfall(_console(), answer["in_force"])


def _read(reader: Reader, noun: str, name: str, options: Mapping[str, str | None]) -> Any:
    """The API's explanation."""
    at, path = options["at"], quote(name, safe="")
    match noun:
        case "node":
            return reader.get("/v1/why", {"node": name, "subject": options["subject"] or "batch-cpu", "at": at})
        case "pod":
            where = {"node": options["node"], "namespace": options["namespace"]}
            answer = reader.get("/v1/why/pod", {"pod": name, **where, "at": at, "kind": options["subject"]})
            if options["subject"] == CPUSET:  # of the whole machine: what the pod shares, and with which pools
                params = {"node": answer["pod"]["node"], "subject": CPUSET, "at": at}
                answer["in_force"] = None
                with suppress(NotFound):
                    answer["in_force"] = reader.get("/v1/why", params)
            return answer
        case "quota":
            return reader.get(f"/v1/quotas/{path}/why", {"at": at})
        case "claim":
            return claim_decision(reader, name, at)
        case "migration":
            return move_decisions(reader, name, at)
    return reader.get(f"/v1/decisions/{path}/chain")


def _asked(target: str) -> tuple[str, str]:
    noun, slash, name = target.partition("/")
    if not slash or not name or noun not in _NOUNS:
        allowed = "node/NAME, pod/NAME, decision/ID, quota/NAME, claim/ID or migration/NAME"
        raise InvalidInput(f"{target!r} cannot be explained; allowed: {allowed}")
    return _NOUNS[noun], name


def _place(name: str, namespace: str | None) -> tuple[str, str | None]:
    """Name and namespace of a pod, which may be NAMESPACE/NAME. Raises InvalidInput for two namespaces."""
    of_pod, slash, plain = name.partition("/")
    if not slash:
        return name, namespace
    if not of_pod or not plain or "/" in plain:
        raise InvalidInput(f"pod/{name}: not a pod; allowed: pod/NAME or pod/NAMESPACE/NAME")
    if namespace not in (None, of_pod):
        raise InvalidInput(f"pod/{name} is not in --namespace {namespace}: name one namespace")
    return plain, of_pod


def claim_decision(reader: Reader, claim: str, at: str | None) -> Any:
    """The newest decision about a claim, or the one that was the newest at a time, and all before it. Raises
    NotFound."""
    items = _decisions(reader, "claim", claim, at)
    record = reader.get(f"/v1/decisions/{quote(items[0]['id'], safe='')}")
    return {"record": record, "decisions": items}


def move_decisions(reader: Reader, job: str, at: str | None) -> Any:
    """The records of the last decisions about the move of a pod, the newest first, and where it is now (None: it was
    dropped, or a past time is asked for). Raises NotFound."""
    items = _decisions(reader, "migration", job, at)
    now = None
    if at is None:
        with suppress(NotFound):
            now = reader.get(f"/v1/podmigrationjobs/{quote(job, safe='')}").get("status")
    return {"now": now, "records": [reader.get(f"/v1/decisions/{quote(item['id'], safe='')}") for item in items]}


def _decisions(reader: Reader, kind: str, subject: str, at: str | None) -> Any:
    params = {"subject": subject, "kind": kind, "until": at, "limit": 20}
    items = reader.get("/v1/decisions", params)["items"]
    if not items:
        raise NotFound(f"no decision about {kind} {subject} is stored{'' if at is None else ' from before that time'}")
    return items


def _console() -> Console:
    from rich.console import Console

    coloured = colours_wanted()
    return Console(
        color_system="auto" if coloured else None, highlight=False, width=None if sys.stdout.isatty() else ENDLESS
    )


def bar(before: int, after: int, low: int, high: int, cells: int = BAR_CELLS[1]) -> str:
    """A bar from `before` to `after` on the scale `low`..`high`, `cells` wide, starting at whole cells.

    A nonzero value always draws at least one cell; zero has no bar.
    """
    if before == after:
        return " " * cells
    span = max(high - low, 1)
    start, end = sorted(((min(before, after) - low) / span, (max(before, after) - low) / span))
    first = min(int(start * cells), cells - 1)
    eighths = max(1, min(round((end * cells - first) * 8), (cells - first) * 8))
    full, rest = divmod(eighths, 8)
    return (" " * first + "█" * full + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def exact_time(text: str) -> str:
    """The time to the second, or in full if it has a fraction. A truncated time given as `--at` would precede its
    event.
    """
    at = parse_time(text).astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}" if at.microsecond else clock_time(text)


def _number(value: int, unit: str, *, signed: bool = False) -> str:
    """A number in a column: cores with three decimals, so that the decimal points align."""
    plus = "+" if signed and value > 0 else ""
    return plus + (f"{value / 1000:.3f}" if unit.startswith("milli") else amount(value, unit))


def print_waterfall(console: Console, answer: Mapping[str, Any]) -> None:
    """Print the terms with bars, the running total, the source of each, and whether the sum is right."""
    from rich.text import Text

    rows, unit, record = answer["waterfall"], answer["unit"], answer["record"]
    ends = [0, answer["result"], *(row["running_after"] for row in rows)]
    low, high = min(ends), max(ends)
    title = Text.assemble((f"{answer['subject']} of node {answer['node']}: ", "bold"))
    title.append(amount(answer["result"], unit), style="bold cyan")
    console.print(title)
    since, rule = exact_time(answer["in_force_since"]), record["rule"] or "none"
    console.print(Text(f"in force since {since}, {record['reason']}, rule {rule}"), soft_wrap=True)
    heading = "CORES" if unit.startswith("milli") else "VALUE"
    table = columns("TERM", heading, "", "TOTAL", "SOURCE", right=(heading, "TOTAL"), wraps="SOURCE", spared=("",))
    texts = [
        (row["name"], _number(row["value"], unit, signed=True), _number(row["running_after"], unit)) for row in rows
    ]
    cells = _bar_cells(console.width, [*texts, ("result", _number(answer["result"], unit), "")])
    for row, (name, value, total) in zip(rows, texts, strict=True):
        drawn = Text(bar(row["running_before"], row["running_after"], low, high, cells), style=_style(row["value"]))
        table.add_row(Text(name), value, drawn, total, _source(row, answer["in_force_since"]))
    whole = Text(bar(0, answer["result"], low, high, cells), style="bold cyan")
    table.add_row(Text("result", style="bold"), _number(answer["result"], unit), whole, "", _check(answer["adds_up"]))
    put(console, table)
    if unit.startswith("byte"):
        console.print(Text(f"exactly: {in_bytes(rows, answer['result'])}", style="dim"), soft_wrap=True)
    _print_rest(console, record)


def in_bytes(rows: Sequence[Mapping[str, Any]], result: int) -> str:
    """The sum in bytes: `34 359 738 368 - 1 073 741 824 = 33 285 996 544 bytes`. The table rounds each amount by
    itself, and rounded amounts do not always add up.
    """
    parts: list[str] = []
    for row in rows:
        if parts or row["value"] < 0:
            parts.append("-" if row["value"] < 0 else "+")
        parts.append(exact(abs(row["value"]), "bytes"))
    return f"{' '.join(parts) or '0'} = {exact(result, 'bytes')} bytes"


def _bar_cells(width: int, texts: Sequence[tuple[str, str, str]]) -> int:
    """The width that the other columns leave to the bar."""
    used = sum(max(5, *map(len, column)) + 2 for column in zip(*texts, strict=True)) + 2
    least, most = BAR_CELLS
    return max(least, min(most, width - used - SOURCE_CELLS))


def _style(value: int) -> str:
    return "green" if value >= 0 else "yellow"


def _moment(text: str, beside: str) -> str:
    """A time; only its clock if it is on the same day as `beside`."""
    at, other = parse_time(text).astimezone(UTC), parse_time(beside).astimezone(UTC)
    return f"{at:%H:%M:%SZ}" if at.date() == other.date() else clock_time(text)


def _source(row: Mapping[str, Any], beside: str) -> Text:
    from rich.text import Text

    parts = [row["note"]] if row["note"] else []
    if row["source"]:
        parts.append(
            short(row["source"]) + (f" at {_moment(row['observed_at'], beside)}" if row["observed_at"] else "")
        )
    return Text("; ".join(parts), style="dim")


def _check(right: bool) -> Text:
    from rich.text import Text

    return Text("the terms add up", style="green") if right else Text("THE TERMS DO NOT ADD UP", style="bold red")


def _print_rest(console: Console, record: Mapping[str, Any]) -> None:
    from rich.text import Text

    if record["inputs"]:
        table = columns("INPUT", "VALUE", "UNIT", "SOURCE", right=("VALUE",), wraps="SOURCE")
        for each in record["inputs"]:
            when = f" at {_moment(each['observed_at'], record['decided_at'])}" if each["observed_at"] else ""
            value, unit = _measured(each["value"], each["unit"])
            table.add_row(Text(each["name"]), Text(value), Text(unit), Text(short(each["source"]) + when, style="dim"))
        console.print()
        put(console, table)
        console.print()
    if record["remaining"]:
        because = f": {record['remaining_because']}" if record["remaining_because"] else ""
        console.print(Text(f"{amount(record['remaining'], record['unit'])} remain{because}", style="yellow"))
    for each in record["alternatives"]:
        could = (
            f"; it could have released {amount(each['would_release'], record['unit'])}"
            if each.get("would_release")
            else ""
        )
        console.print(Text(f"not chosen: {each['what']} ({each['rejected_because']}{could})"))
    trace = f", trace {record['trace_id']}" if record.get("trace_id") else ""
    console.print(Text(f"decision {record['id']}{trace}", style="dim"), soft_wrap=True)


def _measured(value: float | int | str | None, unit: str) -> tuple[str, str]:
    """An input's value and its unit; memory in binary units (`-o json` has the bytes)."""
    if unit.startswith("byte") and isinstance(value, int):
        return amount(value, unit), ""
    return _reading(value), unit


def _reading(value: float | int | str | None) -> str:
    """An input's value; floats to four digits (`-o json` has them all)."""
    if value is None:
        return UNKNOWN
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_chain(console: Console, answer: Mapping[str, Any]) -> None:
    """Print one line per step, with its time of day (UTC) and the seconds since the first."""
    from rich.text import Text

    first = next(step["at"] for step in answer["steps"] if step["at"])  # the decision itself always has a time
    day = parse_time(first).astimezone(UTC)
    console.print(Text(f"decision {answer['decision_id']}, {day:%Y-%m-%d} UTC", style="bold"), soft_wrap=True)
    table = columns("SECONDS", "TIME", "STEP", "WHAT", right=("SECONDS",), wraps="WHAT")
    for step in answer["steps"]:
        seconds = UNKNOWN if step["seconds"] is None else f"+{step['seconds']:.3f}"
        at = f"{parse_time(step['at']).astimezone(UTC):%H:%M:%S.%f}"[:-3] if step["at"] else UNKNOWN
        table.add_row(seconds, at, Text(step["kind"], style="bold"), Text(step["summary"]))
    put(console, table)
    if answer.get("working"):
        console.print()
    print_reasoning(console, answer)
    if answer.get("trace_id"):
        console.print(Text(f"trace {answer['trace_id']}", style="dim"), soft_wrap=True)
    if not answer["complete"]:
        console.print(Text("the chain is not complete yet; repeat the command in a few seconds", style="yellow"))
