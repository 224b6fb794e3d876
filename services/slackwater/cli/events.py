"""`slackwater events`: prints events as they happen."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.output import clock_time, colours_wanted, cpu, errors_to_stderr, memory, message
from slackwater.model.plurals import counted

if TYPE_CHECKING:
    from slackwater.client.event_stream import Position
    from slackwater.client.transport import Transport

EMPTY = ""
BELOW = " " * 4
"""Indent of the text that does not fit on the line."""
LONGEST_FIELD = 60
"""Longest field shown of an event without its own wording; longer values are in the JSON."""
QUIET_SECONDS = 1.0
"""Without --watch: stored events arrive at once, so a pause this long means that there are no more."""
_COLOURS = {"throttle": "33", "evict": "31", "restore": "32", "lost": "31", "stale": "33", "gap": "31", "block": "33"}
Item = Mapping[str, Any]


class EventsFormat(StrEnum):
    """One line per event; `json` is the event as the server sent it."""

    TABLE = "table"
    JSON = "json"


def command(
    types: Annotated[
        str | None, typer.Option("--types", "-t", help="types or patterns, separated by commas, e.g. decision.*")
    ] = None,
    node: Annotated[str | None, typer.Option("--node", help="names or patterns, e.g. edge-*")] = None,
    since: Annotated[str | None, typer.Option("--since", help="start time, or age (15m)")] = None,
    after: Annotated[str | None, typer.Option("--after", help="start after this id (of -o json)")] = None,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="continue until Ctrl-C")] = False,
    output: Annotated[
        EventsFormat, typer.Option("-o", "--output", help="json: one object per line")
    ] = EventsFormat.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="omit the header")] = False,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Show events: those of the last 15 minutes (or --since), with -w also new ones, resumed automatically.

    All types but usage.reported, waterline.crossed (a copy of an urgent report) and pods.rostered, unless --types asks
    for them.
    A lost connection is resumed where it ended; events no longer stored are reported as a gap.

    Examples: `slackwater events --since 1h -t decision.*`, `slackwater events -w --types eviction.*,effect.* -o json`
    """
    from slackwater.cli.client import HttpReader, reading
    from slackwater.client.answers import given
    from slackwater.client.event_stream import PAUSE_SECONDS, Position
    from slackwater.client.transport import keep_reading
    from slackwater.model.errors import InvalidInput

    begin = since or (None if after or watch else "15m")
    with errors_to_stderr(), reading(server) as reader:
        if not isinstance(reader, HttpReader):
            raise InvalidInput("events need a running instance: start one with `slackwater up`")
        params = {"types": types, "node": node, "since": begin}
        show = _printer(output, headers=not no_headers)
        if watch:
            pause = partial(time.sleep, PAUSE_SECONDS)
            for event in keep_reading(reader.transport, params, after or "", message, pause):
                show(event.place, event.data)
        else:
            _show_stored(reader.transport, Position(given(params), after or ""), show)


def _show_stored(transport: Transport, position: Position, show: Callable[[str, Item], None]) -> None:
    """Show the stored events, until none arrives for a moment. Raises Unavailable."""
    import httpx2

    from slackwater.client.transport import NoAnswer
    from slackwater.model.errors import Unavailable

    timeout = httpx2.Timeout(10.0, read=QUIET_SECONDS)
    try:
        for event in transport.read_stream(**position.request(), timeout=timeout):
            if event.type:
                show(event.place, event.data)
    except NoAnswer as error:
        if not isinstance(error.__cause__, httpx2.ReadTimeout):
            raise Unavailable(f"{error.message}; is it running? (see `slackwater doctor`)") from None


def _printer(form: EventsFormat, *, headers: bool) -> Callable[[str, Item], None]:
    if form is EventsFormat.JSON:
        return lambda place, item: _write(json.dumps({"place": place, **item}, ensure_ascii=False))
    width = shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else 0
    untitled = [headers]

    def show(_: str, item: Item) -> None:
        if untitled[0]:
            _write(f"{'TIME':<20}  {'NODE':<16}  {'TYPE':<21}  WHAT")
            untitled[0] = False
        if item["type"] != "closing":
            _write(line_of(item, width, colours=colours_wanted()))

    return show


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def line_of(item: Item, width: int = 0, *, colours: bool = False) -> str:
    """One event as a line; on a terminal of `width` columns (0: no terminal) the text that does not fit continues
    below.
    """
    at = clock_time(item["time"]) if "time" in item else time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
    word, text = words_of(item)
    line = f"{at:<20}  {item.get('node', EMPTY) or '-':<16}  {item['type']:<21}  {text}".rstrip()
    lines = textwrap.wrap(line, width, subsequent_indent=BELOW, break_on_hyphens=False) if width else [line]
    colour = _COLOURS.get(word)
    return "\n".join(f"\033[{colour}m{line}\033[0m" if colours and colour else line for line in lines)


def words_of(item: Item) -> tuple[str, str]:
    """The kind of event, which sets its colour, and its text."""
    if item["type"] == "gap":
        return "gap", f"{item['detail']}"
    return _SAYINGS.get(item["type"], _fields)(item.get("data") or {})


def _fields(data: Item) -> tuple[str, str]:
    """The text of an event without its own wording: each field with one short value, under its name."""
    short = {name: str(value) for name, value in data.items() if isinstance(value, str | int | float)}
    return "", ", ".join(f"{name} {text}" for name, text in short.items() if text and len(text) <= LONGEST_FIELD)


def _decision(data: Item) -> tuple[str, str]:
    record = data["record"]
    pods = [action["pod_name"] for action in record["actions"]]
    whom = f": {', '.join(pods[:3])}{f' and {len(pods) - 3} more' if len(pods) > 3 else ''}" if pods else ""
    return record["kind"], f"{record['kind']} {record['subject']} ({record['reason']}){whom}"


def _effect(data: Item) -> tuple[str, str]:
    relieved = "relieved" if data["relieved"] else "not relieved"
    before, after = data["before"], data["after"]
    return "", f"{data['metric']} {before:.1%} -> {after:.1%}, {relieved} in {data['seconds_to_measurement']:.1f} s"


def _observed(data: Item) -> tuple[str, str]:
    limits = len(data["limits"])
    written = f"{limits} limit{'' if limits == 1 else 's'} written"
    return "", f"generation {data['generation']} of {data['writer']}: {written}"


def _offered(data: Item) -> tuple[str, str]:
    cautious = f", degraded: {data['degraded']}" if data["degraded"] else ""
    batch = data["batch"]
    return "", f"batch {cpu(batch['cpu_milli'])} cores, {memory(batch['memory_bytes'])}{cautious}"


def _checked(data: Item) -> tuple[str, str]:
    what = f"{data['document']}@{data['generation']}" if data["document"] else "strategy override of the node"
    follows = f"; applied: {', '.join(data['followed']) or 'nothing'}"
    return ("", f"{what} is valid{follows}") if data["usable"] else ("gap", f"{what}: {data['problem']}{follows}")


def _followed(data: Item) -> tuple[str, str]:
    what = f"{data['document']}@{data['generation']}"
    if data["gone"]:
        return "", f"{what} was deleted"
    counts = data["observed_generation"]
    kept = f"degraded: generation {counts} stays in force" if counts else "degraded: only its valid parts are in force"
    return (
        ("gap", f"{what}: {kept}")
        if data["problem"]
        else ("", f"{what} is in force on {counted(data['nodes'], 'node')}")
    )


def _liveness(data: Item) -> tuple[str, str]:
    if data.get("duplicate"):
        return "lost", f"two agents report as this node since {clock_time(data['duplicate']['since'])}; one is refused"
    return data["liveness"], f"{data['previous'] or 'unknown'} -> {data['liveness']}"


def _deleted(data: Item) -> tuple[str, str]:
    last = f"last report {clock_time(data['last_report_at'])}" if data["last_report_at"] else "it never reported"
    by = "it was gone" if data["reason"] == "expired" else f"by {data['deleted_by']}"
    return "", f"deleted: {by}; {last}"


def _scheduling(data: Item) -> tuple[str, str]:
    if not data["closed"]:
        return "", f"schedulable ({data['reason']})"
    until = f" until {clock_time(data['valid_until'])}" if data["valid_until"] else ""
    return "throttle", f"cordoned{until} because of {', '.join(data['rules'])}"


def _predicted(data: Item) -> tuple[str, str]:
    peak, reclaimable = data["prod_peak"]["cpu_milli"], data["prod_reclaimable"]["cpu_milli"]
    return "", f"prod peak {cpu(peak)} cores, reclaimable {cpu(reclaimable)}"


def _windowed(data: Item) -> tuple[str, str]:
    reports, pods = data["reports"], len(data["pods"])
    return (
        "",
        f"window {data['number']}: {counted(reports, 'report')}, {data['gaps']} missing, {counted(pods, 'pod')}",
    )


def _evicted(data: Item) -> tuple[str, str]:
    return "evict", f"{data['pod_uid']} {data['outcome']} {data['detail']}".rstrip()


def _declared(data: Item) -> tuple[str, str]:
    throttles, evictions = len(data["throttles"]), len(data["evictions"])
    return "", f"generation {data['generation']} of {data['writer']}: {throttles} throttled, {evictions} to evict"


def _described(data: Item) -> tuple[str, str]:
    facts = data["facts"]
    return "", f"{cpu(facts['capacity']['cpu_milli'])} cores, pool {facts['pool']}, driver {facts['driver']}"


def _reported(data: Item) -> tuple[str, str]:
    used, pods = data["node_usage"]["cpu_milli"]["avg"], len(data["pods"])
    return "", f"{cpu(used)} cores used, {counted(pods, 'pod')}, {data['trigger']}"


def _health(data: Item) -> tuple[str, str]:
    states = ", ".join(f"{service['name']} {service['state']}" for service in data["services"])
    return "", f"{data['instance']}: {states}"


def _blocked(data: Item) -> tuple[str, str]:
    return "block" if data["blocked"] else "unblock", f"by {data['changed_by']}: {data['reason']}"


def _quarantined(data: Item) -> tuple[str, str]:
    where = f"{data['service']} {data['table']} {data['row']}"
    if data["released"]:
        return "", f"{where} released"
    return "lost", f"{where} set aside, {data['reason']}: {data['detail']}".rstrip(": ")


def _accounted(data: Item) -> tuple[str, str]:
    waiting, reclaiming = len(data["queue"]) + data["queue_beyond"], len(data["reclaiming"])
    quotas = counted(len(data["quotas"]) + data["quotas_beyond"], "quota")
    return "", f"tree {data['tree']}: {quotas}, {counted(waiting, 'claim')} waiting, {reclaiming} to end"


def _rostered(data: Item) -> tuple[str, str]:
    roster = data["roster"]
    failed = counted(len(roster["failed_pods"]), "failed pod") if roster.get("failed_pods") else ""
    return "", ", ".join(filter(None, (f"runs {counted(len(roster['uids']), 'pod')}", failed)))


_SAYINGS: Mapping[str, Callable[[Item], tuple[str, str]]] = {
    "decision.recorded": _decision,
    "agent.decision_recorded": _decision,
    "effect.measured": _effect,
    "intent.observed": _observed,
    "resources.offered": _offered,
    "strategy.checked": _checked,
    "strategy.followed": _followed,
    "node.liveness_changed": _liveness,
    "node.deleted": _deleted,
    "node.scheduling_changed": _scheduling,
    "agent.block_changed": _blocked,
    "state.quarantined": _quarantined,
    "peak.predicted": _predicted,
    "usage.windowed": _windowed,
    "eviction.completed": _evicted,
    "intent.declared": _declared,
    "node.described": _described,
    "usage.reported": _reported,
    "pods.rostered": _rostered,
    "waterline.crossed": _reported,
    "health.reported": _health,
    "quota.accounted": _accounted,
}
