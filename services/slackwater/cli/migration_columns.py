"""What was decided about the move of a pod, as `why` prints it."""

from __future__ import annotations

from collections.abc import Iterator

from slackwater.cli.output import Item, clock_time

HELD = "migration_held"


def move_why_lines(answer: Item) -> Iterator[str]:
    """The newest decision with all that it followed from, then each step before it with what changed."""
    newest, *earlier = answer["records"]
    if answer["now"]:
        yield _now(answer["now"])
    yield f"migration {newest['subject']}, {clock_time(newest['decided_at'])}: {newest['remaining_because']}"
    yield f"{newest['reason']}, rule {newest['rule']}, decision {newest['id']}"
    if newest["reason"] == HELD:
        terms = {term["name"]: term["value"] for term in newest["terms"]}
        yield f"  in use {-terms['in use']} of {terms['limit']}"
    for each in newest["inputs"]:
        if each["value"] not in ("", None):
            unit = f" {each['unit']}" if each["unit"] else ""
            yield f"  {each['name']}: {each['value']}{unit} ({each['source']})"
    for record in earlier:
        yield f"{clock_time(record['decided_at'])} {record['reason']}: {record['remaining_because']}"


def _now(status: Item) -> str:
    held = status.get("heldBy")
    because = status.get("message") or status.get("reason") or ""
    if held:
        because = f"{held['filter']} {held['scope']}, {held['count']} of {held['limit']} in use, since {held['since']}"
    where = f" to {status['node']}" if status.get("node") else ""
    down = status.get("downtimeSeconds")
    downtime = "" if down is None else f", downtime {down:.2f} s"
    return f"now {status['phase']}, {status['step']}{where}{downtime}" + (f": {because}" if because else "")
