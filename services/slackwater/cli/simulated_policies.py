"""Output of `slackwater simulate` for policies: one row per figure, one column per policy, and the difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slackwater.cli.output import Item, TableColumn, table
from slackwater.model.plurals import counted, plural

SHOWN_GAPS = 5


def lines(answer: Item) -> list[str]:
    """The text report: what was replayed, the cost, the time above the waterlines, the actions and the open gaps."""
    policies, last = answer["policies"], answer["differences"][-1]
    shown = [*heading(answer["history"]), "", *_table("FIGURE", figures(policies, last), policies, last)]
    shown += ["", *_table("ABOVE", times(policies, last), policies, last)]
    done = actions(policies)
    shown += ["", *_table("DECISIONS (PODS)", done, policies, None)] if done else ["", "No policy acted."]
    gaps = open_gaps(policies)
    if gaps:
        shown += ["", "STAYED OPEN", *gaps]
    return [*shown, "", *LEGEND]


def heading(history: Item) -> list[str]:
    when = f" from {history['start']}" if history["start"] else ""
    steps = f"control period {history['look_seconds']:g} s, samples of {history['period_seconds']:g} s"
    hours = f"{history['hours']:,g} {plural(history['hours'], 'hour')}"
    first = f"{history['source']}: {counted(history['nodes'], 'node')}, {hours}{when}, {steps}"
    return [first, *history["notes"]]


def figures(policies: Sequence[Item], last: Item) -> list[Item]:
    return [
        {
            "what": said,
            "values": [text(policy[name]) for policy in policies],
            "difference": signed(text, last["figures"][name]),
        }
        for name, said, text, always in FIGURES
        if always or any(policy[name] for policy in policies)
    ]


def times(policies: Sequence[Item], last: Item) -> list[Item]:
    """Three rows for each waterline of any policy that the replayed data can measure."""
    rows: list[Item] = []
    for place, first in enumerate(policies[0]["waterlines"]):
        times_by_policy = [times_above["waterlines"][place] for times_above in policies]
        if first["nodes"] == 0:
            continue
        rows.append(
            {
                "what": f"{first['metric']} {waterline(first)}, s",
                "values": [_count(times_above["seconds"]) for times_above in times_by_policy],
                "difference": signed(_count, last["above_seconds"][place]),
            }
        )
        rows.append(
            {"what": "  share of the time", "values": [_share(times_above["share"]) for times_above in times_by_policy]}
        )
        longest = [_count(times_above["longest_episode_seconds"]) for times_above in times_by_policy]
        rows.append({"what": "  longest episode, s", "values": longest})
    return rows


def waterline(excess: Item) -> str:
    """The waterline's value as policies write it."""
    value = float(excess["value"])
    match excess["unit"]:
        case "ratio":
            return f"{value * 100:g}%"
        case "milli-cores":
            return f"{value / 1000:.10g} cores"
        case "bytes":
            return f"{value / 2**30:.10g} GiB"
    return f"{value:.10g}"


def actions(policies: Sequence[Item]) -> list[Item]:
    reasons = list(dict.fromkeys(reason for policy in policies for reason in policy["actions"]))
    rows: list[Item] = []
    for reason in reasons:
        counts = [policy["actions"].get(reason, {"decisions": 0, "pods": 0}) for policy in policies]
        rows.append({"what": reason, "values": [f"{count['decisions']:,} ({count['pods']:,})" for count in counts]})
    return rows


def open_gaps(policies: Sequence[Item]) -> list[str]:
    """The longest open gaps of each policy, with the reason."""
    shown = []
    for policy in policies:
        for gap in policy["gaps"][:SHOWN_GAPS]:
            most = "" if gap["largest"] is None else f", up to {_amount(gap)}"
            head = f"{policy['name']}: {gap['kind']} for {gap['metric']}, {_count(gap['seconds'])} s{most}"
            shown.append(f"{head}: {gap['because']}")
        if len(policy["gaps"]) > SHOWN_GAPS:
            shown.append(f"{policy['name']}: {len(policy['gaps']) - SHOWN_GAPS} more; -o json has all")
    return shown


def _amount(gap: Item) -> str:
    if gap["unit"] == "bytes":
        return f"{gap['largest'] / 2**30:,.2f} GiB"
    return f"{gap['largest'] / 1000:,.2f} cores" if gap["unit"] else f"{gap['largest']:g}"


def _table(title: str, rows: Sequence[Item], policies: Sequence[Item], last: Item | None) -> list[str]:
    columns = [
        TableColumn(title, lambda row: str(row["what"])),
        *(_value(place, one["name"]) for place, one in enumerate(policies)),
    ]
    if last is not None:
        name = f"{last['name']} - {last['against']}"
        columns.append(TableColumn(name, lambda row: str(row.get("difference", "")), right=True))
    return table(rows, columns, wide=False, headers=True)


def _value(place: int, name: str) -> TableColumn:
    return TableColumn(name, lambda row: str(row["values"][place]), right=True)


def signed(text: Callable[[float], str], value: float) -> str:
    """The text with its sign; without a sign if it is displayed as zero."""
    said = text(abs(value))
    return said if said == text(0.0) else f"{'+' if value > 0 else '-'}{said}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _one(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 100 else _count(value)


def _share(value: float) -> str:
    return f"{value * 100:.3f}%"


FIGURES: Sequence[tuple[str, str, Callable[[float], str], bool]] = (
    ("throttle_seconds", "throttle-seconds of pods", _count, True),
    ("throttled_core_seconds", "throttled core-seconds", _count, True),
    ("evictions", "evictions", _count, True),
    ("evicted_core_seconds", "core-seconds lost to evictions", _count, False),
    ("returned", "evicted pods that returned", _count, False),
    ("batch_core_hours", "core-hours used by batch", _one, True),
    ("prod_lacked_core_seconds", "core-seconds of unmet prod demand", _count, True),
    ("unrelieved_seconds", "seconds with an open gap", _count, True),
    ("closed_seconds", "seconds cordoned", _count, False),
    ("step_backs", "step-backs from evict", _count, False),
)
LEGEND: Sequence[str] = [
    "Seconds are summed over pods or nodes. Every policy is measured against the waterlines of all policies; a node",
    "that crosses one counts as above it until the next control step. The demand is the same under all policies.",
]
