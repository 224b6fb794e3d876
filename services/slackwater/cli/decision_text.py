"""Output of `slackwater why` for throttles, restores and evictions: the arithmetic, the candidates, a pod's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.cli.output import UNKNOWN, amount, clock_time
from slackwater.cli.tables import columns, put

if TYPE_CHECKING:
    from rich.console import Console

LISTED = 30
"""Candidates that a table shows; `-o json` has all."""
_DONE = {
    "throttle": "throttled",
    "restore": "given back",
    "evict": "evicted",
    "deschedule": "proposed for a move",
    "cpuset": "placed",
}


def print_reasoning(console: Console, answer: Mapping[str, Any]) -> None:
    """Print the arithmetic of a decision and its candidates in their order; nothing for decisions without pods."""
    from rich.text import Text

    for line in answer.get("working") or ():
        console.print(Text(f"  {line}"), soft_wrap=True)
    if answer.get("candidates"):
        console.print()
        print_candidates(console, answer["candidates"], answer["order"], answer["unit"])


def print_candidates(console: Console, rows: Sequence[Mapping[str, Any]], order: str, unit: str) -> None:
    """Print the candidates. Released amounts are not rounded, so that the reader can add them up."""
    from rich.text import Text

    gives = "GIVEN-BACK" if any((row["released"] or 0) < 0 for row in rows) else "RELEASES"
    table = columns("PLACE", "POD", "", gives, "KEYS", "WHY NOT", right=("PLACE", gives), wraps="WHY NOT")
    for row in rows[:LISTED]:
        released = row["released"] if row["chosen"] else row["would_release"]
        table.add_row(
            UNKNOWN if row["place"] is None else str(row["place"]),
            Text(row["name"]),
            Text("chosen", style="bold") if row["chosen"] else Text("spared", style="dim"),
            UNKNOWN if released is None else exact(abs(released), unit),
            Text(keys(row["keys"]), style="dim"),
            Text(row["because"]),
        )
    put(console, table)
    if len(rows) > LISTED:
        console.print(Text(f"and {len(rows) - LISTED} more: -o json has all", style="dim"))
    if any(row["keys"] for row in rows):
        console.print(Text(f"keys: {order}; the first that differs decides, the lower comes first", style="dim"))


def keys(values: Sequence[float]) -> str:
    return " ".join(f"{value:.10g}" for value in values)


def exact(value: int, unit: str) -> str:
    """Cores with three decimals, or bytes, unrounded."""
    return f"{value / 1000:.3f}" if unit.startswith("milli") else f"{value:,}".replace(",", " ")


def print_pod(console: Console, answer: Mapping[str, Any], at: str | None = None) -> None:
    """Print the pod, the newest decision that touched it (else the newest) in full, and a table of all. `at` is the
    option as given: the pod's state is the current one, the decisions are those up to `at`.
    """
    from rich.text import Text

    pod, parts = answer["pod"], answer["decisions"]
    console.print(Text(f"pod {_place(pod)} on node {pod['node']}, uid {pod['uid']}", style="bold"), soft_wrap=True)
    console.print(Text(("now: " if at and answer["running"] else "") + _standing(answer)), soft_wrap=True)
    if not parts:
        by_then = f" by then (--at {at}); ask for a later time" if at else ""
        console.print(Text(f"no stored decision considered it{by_then}"))
        return
    console.print()
    newest = next((part for part in parts if part["chosen"] and part["carried_out"]), parts[0])
    console.print(Text(f"{clock_time(newest['decided_at'])} {sentence(newest)}", style="bold"), soft_wrap=True)
    print_reasoning(console, {"working": newest["working"]})
    console.print(Text(f"  {_own(newest)}"), soft_wrap=True)
    if newest["kind"] != "cpuset":
        console.print(Text(f"  {_brought(newest)}"), soft_wrap=True)
    console.print(Text(f"  slackwater why decision/{newest['id']}", style="dim"), soft_wrap=True)
    if not at and (later := later_steps(answer["running"], newest)):
        console.print(Text(f"  {later}"), soft_wrap=True)
    console.print()
    table = columns("TIME", "KIND", "POD", "PLACE", "WHY", "RELIEVED", "ID", right=("PLACE",), wraps="WHY")
    for part in parts:
        effect = part["effect"]
        table.add_row(
            clock_time(part["decided_at"]),
            part["kind"],
            Text(verdict(part)),
            UNKNOWN if part["place"] is None else f"{part['place']}/{part['candidates']}",
            Text(part["because"] or str(part["reason"]).replace("_", " ")),
            UNKNOWN if effect is None else "yes" if effect["relieved"] else "no",
            Text(part["id"], style="dim"),
        )
    put(console, table)


def later_steps(running: Mapping[str, Any] | None, newest: Mapping[str, Any]) -> str:
    """A sentence if the pod's CPU limit is not the one of its newest record: steps of an episode share records."""
    before, after = newest["limit_before_milli"], newest["limit_after_milli"]
    if running is None or not (newest["chosen"] and newest["carried_out"]) or before == after:
        return ""
    now = running["cpu_limit_milli"]
    if now == after:
        return ""
    limits = ["none" if limit is None else amount(limit, "milli") for limit in (now, after)]
    return (
        f"its CPU limit is {limits[0]} now, not {limits[1]}: newer steps of the episode are listed by a later record"
        " (at most some minutes later), or the node has not reported this one yet"
    )


def _place(pod: Mapping[str, Any]) -> str:
    return f"{pod['namespace']}/{pod['name']}" if pod["namespace"] else str(pod["name"])


def _standing(answer: Mapping[str, Any]) -> str:
    running = answer["running"]
    if running is None:
        return f"it no longer runs; last considered {clock_time(answer['pod']['seen_at'])}"
    limit, before = running["cpu_limit_milli"], running["original_cpu_limit_milli"]
    held = "its own CPU limit" if limit is not None else "no CPU limit"
    if running["throttled"]:
        own = "none" if before is None else amount(before, "milli")
        held = f"throttled to {amount(limit, 'milli')} (its own limit: {own})"
    if running.get("unread"):
        held += f", as read last: its file cannot be read ({running['unread']})"
    return f"{running['tier']}, {running['qos']}, uses {amount(running['usage']['cpu_milli'], 'milli')}, {held}"


def verdict(part: Mapping[str, Any]) -> str:
    """The pod's part in a decision, in one or two words."""
    if not part["chosen"]:
        return "spared"
    done = _DONE.get(part["kind"], part["kind"])
    if part.get("reason") == "throttle_left_to_weights":
        return f"left to CPU weights, would be {done}"
    return done if part["carried_out"] else f"would be {done}"


def sentence(part: Mapping[str, Any]) -> str:
    reason = str(part["reason"]).replace("_", " ")
    because = f": {part['because']}" if part["because"] else ""
    return f"{verdict(part)}{because} ({reason}, rule {part['rule'] or 'none'}, by {part['service']})"


def _own(part: Mapping[str, Any]) -> str:
    where = "it was not a candidate" if part["place"] is None else f"place {part['place']} of {part['candidates']}"
    if part["keys"]:
        where += f", keys {keys(part['keys'])} ({part['order']})"
    if not part["chosen"]:
        could = part["would_release"]
        return where + ("" if could is None else f"; it could have released {amount(could, part['unit'])}")
    if (cpuset := part.get("cpuset")) is not None:
        return _cpus(cpuset)
    if part["evicted"]:
        return f"{where}; its end releases {amount(part['released'] or 0, part['unit'])}"
    unit, limits = "milli", (part["limit_before_milli"], part["limit_after_milli"])
    if (memory := part.get("memory")) is not None:
        unit, limits = "bytes", (memory["before_bytes"], memory["after_bytes"])
    before, after = ("none" if limit is None else amount(limit, unit) for limit in limits)
    return f"{where}; limit {before} -> {after}, {_moved(part)}"


def _cpus(cpuset: Mapping[str, Any]) -> str:
    """The CPUs of a pod before and after, and how it has them."""
    before, after = (f"CPUs {cpuset[side]}" if cpuset[side] else "any CPU" for side in ("before", "after"))
    pool = f" in the pool {cpuset['pool']}" if cpuset["pool"] else ""
    memory = f", memory of NUMA nodes {cpuset['memory_nodes']}" if cpuset["memory_nodes"] else ""
    return f"{before} -> {after}{memory} ({cpuset['holder']}{pool})"


def _moved(part: Mapping[str, Any]) -> str:
    released = part["released"] or 0
    return f"{'releases' if released >= 0 else 'gives back'} {amount(abs(released), part['unit'])}"


def _brought(part: Mapping[str, Any]) -> str:
    ended = f"eviction {part['ended'].replace('_', ' ')}; " if part["ended"] else ""
    if not part["relief"]:
        return f"{ended}no effect was measured" + ("" if part["carried_out"] else ": the action was not carried out")
    return f"{ended}{'' if part['chosen'] else 'other pods were chosen: '}{part['relief']}"
