"""Renders the comparison of the two policies as a table."""

from __future__ import annotations

from rich.table import Table

from slackwater.demo.comparison import (
    BELOW_WITHIN_SECONDS,
    MOST_LOST_ABOVE_NEEDED,
    P99_FACTOR,
    ComparisonOutcome,
    PolicyComparison,
)
from slackwater.demo.policies import ALL_OR_NOTHING, PRECISE

_NEARLY_ALL = 0.9
TITLES = {ALL_OR_NOTHING: "all or nothing", PRECISE: "precise"}


def compared(comparison: PolicyComparison) -> Table:
    """A table with a row per figure, a column per policy, and the goal for the precise one."""
    count = sum(one.surges for one in comparison.outcomes.values())
    table = Table(
        title=f"all or nothing and precise in turn, {count} surges of {comparison.surge_seconds:g} s, "
        f"waterline {comparison.waterline:.0%}",
        title_justify="left",
    )
    table.add_column("", no_wrap=True)
    names = [name for name in TITLES if name in comparison.outcomes]
    for name in names:
        table.add_column(TITLES[name], justify="right")
    table.add_column("wanted", justify="right")
    for title, figures, wanted in _rows(comparison, names):
        table.add_row(title, *figures, wanted)
    return table


def _rows(comparison: PolicyComparison, names: list[str]) -> list[tuple[str, list[str], str]]:
    outcomes = [comparison.outcomes[name] for name in names]
    alone, middle, pods = comparison.alone_p99_ms, comparison.alone_p99_median_ms, comparison.batch_pods

    def row(title: str, figures: list[str], wanted: str = "") -> tuple[str, list[str], str]:
        return title, figures, wanted

    return [
        row("surges (above the waterline)", [f"{one.surges} ({one.crossed})" for one in outcomes]),
        row(
            "prod p99, ms" + ("" if alone is None else f" (alone {alone:.1f})"),
            [_number(one.p99_ms) for one in outcomes],
            "" if alone is None else f"<= {P99_FACTOR * alone:.1f}",
        ),
        row(
            "of the median surge" + ("" if middle is None else f" (alone {middle:.1f})"),
            [_number(one.p99_median_ms) for one in outcomes],
        ),
        *_where_nothing_was_taken(comparison, outcomes),
        row("batch CPU needed, CPU-s", [f"{one.needed:.1f}" for one in outcomes]),
        row("batch CPU lost, CPU-s", [f"{one.lost:.1f}" for one in outcomes]),
        row(
            "lost above needed",
            [_ratio(one.above_needed_ratio) for one in outcomes],
            f"<= {MOST_LOST_ABOVE_NEEDED:.0%}",
        ),
        row("batch pods touched a surge", [f"{one.pods_a_surge:.1f} of {pods}" for one in outcomes]),
        row("quotas lowered", [str(one.actions) for one in outcomes]),
        row("surge -> below, s (p50)", [_number(one.below_p50_seconds) for one in outcomes]),
        row("surge -> below, s (p99 = worst)", [_worst(one) for one in outcomes], f"<= {BELOW_WITHIN_SECONDS:g}"),
        row("above the waterline, s", [f"{one.seconds_above:.1f}" for one in outcomes]),
    ]


def _where_nothing_was_taken(
    comparison: PolicyComparison, outcomes: list[ComparisonOutcome]
) -> list[tuple[str, list[str], str]]:
    """Adds two rows if there was steal."""
    if comparison.alone_stolen + sum(one.stolen for one in outcomes) <= 0:
        return []
    alone = comparison.alone_p99_undisturbed_ms
    return [
        (
            "where the host took nothing" + ("" if alone is None else f" (alone {alone:.1f})"),
            [_number(one.p99_undisturbed_ms) for one in outcomes],
            "" if alone is None else f"<= {P99_FACTOR * alone:.1f}",
        ),
        (
            f"taken by the host, CPU-s (alone {comparison.alone_stolen:.1f})",
            [f"{one.stolen:.1f}" for one in outcomes],
            "",
        ),
    ]


def lines(comparison: PolicyComparison) -> list[str]:
    """The notes on the table: why the comparison is missing or partial, and how its figures are defined."""
    found = [f"all or nothing against precise: {comparison.left_out}"] if comparison.left_out else []
    if comparison.outcomes:
        wanted, kept = comparison.batch_wanted_cpus, comparison.target * comparison.cpus
        found.append(
            f"needed, of each second: machine - batch + {wanted:.2f} (all that batch wants) - {kept:.2f} CPU "
            f"({comparison.target:.0%} of the machine, what is released down to); lost: {wanted:.2f} - batch; both "
            "from the surge until batch has everything back"
        )
        found.append(judged(comparison))
    if _took_everything(comparison):
        found.append(
            "precise: the service needed nearly all that batch wants, so there was nothing to be precise about: this "
            "machine became slower after the requests were measured, or does other work"
        )
    return found


def _took_everything(comparison: PolicyComparison) -> bool:
    """Whether the surges left batch almost no CPU.

    Both policies then throttle all of it, and the cool-down decides the result.
    """
    one = comparison.outcomes.get(PRECISE)
    if one is None:
        return False
    return one.needed >= _NEARLY_ALL * comparison.batch_wanted_cpus * comparison.surge_seconds * one.surges > 0


def judged(comparison: PolicyComparison) -> str:
    """The verdict on each of the three goals; other work on the machine affects the figures."""
    one = comparison.outcomes.get(PRECISE)
    if one is None or not one.actions:
        return "precise: not measured" if one is None else "precise: it never had to act, so nothing was proved"
    words = {True: "met", False: "MISSED", None: "not measured"}
    protected = _is_protected(one.p99_ms, comparison.alone_p99_ms)
    undisturbed = _is_protected(one.p99_undisturbed_ms, comparison.alone_p99_undisturbed_ms)
    aside = ""
    if one.stolen + comparison.alone_stolen > 0 and undisturbed is not None:
        aside = f" ({words[undisturbed]} where the host took nothing)"
    verdicts = (
        ("below the waterline in time", None if one.crossed == 0 else _in_time(one), ""),
        ("p99 protected", protected, aside),
        ("no more lost than needed", _within(one.above_needed_ratio), ""),
    )
    return "precise: " + ", ".join(f"{what} {words[holds]}{more}" for what, holds, more in verdicts)


def _is_protected(p99_ms: float | None, alone_ms: float | None) -> bool | None:
    return None if p99_ms is None or alone_ms is None else p99_ms <= P99_FACTOR * alone_ms


def _in_time(one: ComparisonOutcome) -> bool:
    return one.never_below == 0 and (one.below_p99_seconds or 0.0) <= BELOW_WITHIN_SECONDS


def _within(ratio: float | None) -> bool | None:
    return None if ratio is None else ratio <= MOST_LOST_ABOVE_NEEDED


def _worst(one: ComparisonOutcome) -> str:
    never = f", {one.never_below} never" if one.never_below else ""
    return f"{_number(one.below_p99_seconds)}{never}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:+.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"
