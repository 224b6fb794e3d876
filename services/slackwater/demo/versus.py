"""Renders the comparison of the two policies as a table."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from slackwater.demo.chance import BY_CHANCE, by_chance
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
    table = Table(title=title_of(comparison), title_justify="left")
    for place, name in enumerate(columns_of(comparison)):
        table.add_column(name, no_wrap=not place, justify="right" if place else "left")
    for row in rows_of(comparison):
        table.add_row(*row)
    return table


def title_of(comparison: PolicyComparison) -> str:
    """What was compared, how often, and at which waterline."""
    count = sum(outcome.surges for outcome in comparison.outcomes.values())
    return (
        f"all or nothing and precise alternately, {count} surges of {comparison.surge_seconds:g} s, "
        f"waterline {comparison.waterline:.0%}"
    )


def columns_of(comparison: PolicyComparison) -> tuple[str, ...]:
    """The policies that were measured, and the goal for the precise one; the first column names the figures."""
    return ("", *(TITLES[name] for name in _measured(comparison)), "goal")


def rows_of(comparison: PolicyComparison) -> list[tuple[str, ...]]:
    """A row per figure, in the order of the columns."""
    return [(title, *figures, goal) for title, figures, goal in _rows(comparison, _measured(comparison))]


def _measured(comparison: PolicyComparison) -> list[str]:
    return [name for name in TITLES if name in comparison.outcomes]


def _rows(comparison: PolicyComparison, names: list[str]) -> list[tuple[str, list[str], str]]:
    outcomes = [comparison.outcomes[name] for name in names]
    alone, middle, pods = comparison.alone_p99_ms, comparison.alone_p99_median_ms, comparison.batch_pods

    def row(title: str, figures: list[str], goal: str = "") -> tuple[str, list[str], str]:
        return title, figures, goal

    return [
        row("surges (above the waterline)", [f"{outcome.surges} ({outcome.crossed})" for outcome in outcomes]),
        row(
            "prod p99, ms" + ("" if alone is None else f" (alone {alone:.1f})"),
            [_number(outcome.p99_ms) for outcome in outcomes],
            "" if alone is None else f"<= {P99_FACTOR * alone:.1f}",
        ),
        row(
            "prod p99 of the median surge" + ("" if middle is None else f" (alone {middle:.1f})"),
            [_number(outcome.p99_median_ms) for outcome in outcomes],
        ),
        *_steal_rows(comparison, outcomes),
        row("batch CPU needed, CPU-s", [f"{outcome.needed:.1f}" for outcome in outcomes]),
        row("batch CPU lost, CPU-s", [f"{outcome.lost:.1f}" for outcome in outcomes]),
        row(
            "lost above needed",
            [_ratio(outcome.above_needed_ratio) for outcome in outcomes],
            f"<= {MOST_LOST_ABOVE_NEEDED:.0%}",
        ),
        row("batch pods throttled per surge", [f"{outcome.pods_a_surge:.1f} of {pods}" for outcome in outcomes]),
        row("quotas lowered", [str(outcome.actions) for outcome in outcomes]),
        row("surge -> below, s (p50)", [_number(outcome.below_p50_seconds) for outcome in outcomes]),
        row(
            "surge -> below, s (p99 = worst)", [_worst(outcome) for outcome in outcomes], f"<= {BELOW_WITHIN_SECONDS:g}"
        ),
        row("above the waterline, s", [f"{outcome.seconds_above:.1f}" for outcome in outcomes]),
    ]


def _steal_rows(comparison: PolicyComparison, outcomes: list[ComparisonOutcome]) -> list[tuple[str, list[str], str]]:
    """Adds two rows if there was steal."""
    if comparison.alone_stolen + sum(outcome.stolen for outcome in outcomes) <= 0:
        return []
    alone = comparison.alone_p99_undisturbed_ms
    return [
        (
            "prod p99 without steal" + ("" if alone is None else f" (alone {alone:.1f})"),
            [_number(outcome.p99_undisturbed_ms) for outcome in outcomes],
            "" if alone is None else f"<= {P99_FACTOR * alone:.1f}",
        ),
        (
            f"steal, CPU-s (alone {comparison.alone_stolen:.1f})",
            [f"{outcome.stolen:.1f}" for outcome in outcomes],
            "",
        ),
    ]


def lines(comparison: PolicyComparison) -> list[str]:
    """The notes on the table: why the comparison is missing or partial, and how its figures are defined."""
    notes = [f"all or nothing against precise: {comparison.left_out}"] if comparison.left_out else []
    if comparison.outcomes:
        demand, target = comparison.batch_wanted_cpus, comparison.target * comparison.cpus
        notes.append(
            f"needed, per second: machine - batch + {demand:.2f} (demand of batch) - {target:.2f} CPU "
            f"({comparison.target:.0%} of the machine, the target); lost: {demand:.2f} - batch; both "
            "from the start of the surge until batch is fully restored"
        )
        notes.append(judged(comparison))
    if _needed_nearly_all(comparison):
        notes.append(
            "precise: the service needed nearly all the CPU of batch, so both policies act alike: the machine became "
            "slower after the requests were measured, or it does other work"
        )
    return notes


def _needed_nearly_all(comparison: PolicyComparison) -> bool:
    """Whether the surges left batch almost no CPU.

    Both policies then throttle all of it, and the cool-down decides the result.
    """
    outcome = comparison.outcomes.get(PRECISE)
    if outcome is None:
        return False
    return outcome.needed >= _NEARLY_ALL * comparison.batch_wanted_cpus * comparison.surge_seconds * outcome.surges > 0


@dataclass(frozen=True, slots=True)
class GoalVerdict:
    """One goal of the precise policy. `holds` is None if it was not measured, or if chance decides it: `unclear` says
    how. `aside` is the p99's verdict without the requests that the host delayed."""

    goal: str
    measured: str
    holds: bool | None
    aside: bool | None = None
    unclear: str = ""


def verdicts(comparison: PolicyComparison) -> list[GoalVerdict]:
    """The three goals; none if the precise policy was not measured or never acted."""
    outcome = comparison.outcomes.get(PRECISE)
    if outcome is None or not outcome.actions:
        return []
    protected = _is_protected(outcome.p99_ms, comparison.alone_p99_ms)
    unclear = "" if protected is not False else _unclear(outcome)
    undisturbed = _is_protected(outcome.p99_undisturbed_ms, comparison.alone_p99_undisturbed_ms)
    has_steal = outcome.stolen + comparison.alone_stolen > 0
    p99s = f"{_number(outcome.p99_ms)} ms, alone {_number(comparison.alone_p99_ms)}, goal {P99_FACTOR:g} times that"
    lost = f"{_ratio(outcome.above_needed_ratio)}, goal at most {MOST_LOST_ABOVE_NEEDED:.0%}"
    return [
        GoalVerdict(
            "below the waterline in time",
            f"after seconds: {_worst(outcome)}, goal {BELOW_WITHIN_SECONDS:g}",
            None if outcome.crossed == 0 else _in_time(outcome),
        ),
        GoalVerdict("p99 protected", p99s, protected, undisturbed if has_steal else None)
        if not unclear
        else GoalVerdict("p99 protected", p99s, None, unclear=unclear),
        GoalVerdict("lost no more than needed", lost, _within(outcome.above_needed_ratio)),
    ]


def judged(comparison: PolicyComparison) -> str:
    """The verdict on each of the three goals; other work on the machine affects the figures."""
    found = verdicts(comparison)
    if not found:
        return f"precise: {_why_not_judged(comparison)}"
    words = {True: "met", False: "MISSED", None: "not measured"}
    return "precise: " + ", ".join(
        f"{one.goal} {one.unclear or words[one.holds]}"
        + ("" if one.aside is None else f" ({words[one.aside]} without steal)")
        for one in found
    )


def failures(comparison: PolicyComparison) -> list[str]:
    """The goals that the precise policy missed, a p99 only if it is also missed without the host's steal."""
    return [
        f"policies: precise: {one.goal} MISSED: {one.measured}"
        for one in verdicts(comparison)
        if one.holds is False and not _is_due_to_steal(one)
    ]


def not_measured(comparison: PolicyComparison) -> list[str]:
    """The goals that this run cannot judge, with the reason."""
    found = verdicts(comparison)
    if not found:
        return [f"policies: precise: {_why_not_judged(comparison)}"]
    unmeasured = [f"{one.goal}: not measured" for one in found if one.holds is None and not one.unclear]
    unmeasured += [f"{one.goal} only without what the host took (steal)" for one in found if _is_due_to_steal(one)]
    return [f"policies: precise: {text}" for text in unmeasured]


def _is_due_to_steal(verdict: GoalVerdict) -> bool:
    return verdict.holds is False and verdict.aside is True


def _why_not_judged(comparison: PolicyComparison) -> str:
    if PRECISE not in comparison.outcomes:
        return "not measured"
    return "it never had to act, so nothing was measured"


def _is_protected(p99_ms: float | None, alone_ms: float | None) -> bool | None:
    return None if p99_ms is None or alone_ms is None else p99_ms <= P99_FACTOR * alone_ms


def _unclear(outcome: ComparisonOutcome) -> str:
    """Why a p99 above its bound is no miss: empty where so many slow requests do not come by chance."""
    if outcome.slower is None or (chance := by_chance(outcome.slower, outcome.requests)) <= BY_CHANCE:
        return ""
    return (
        f"unclear: {_number(outcome.p99_ms)} ms, and {outcome.slower} of {outcome.requests} requests beyond the goal, "
        f"which is by chance in {chance:.0%} of runs; more surges tell"
    )


def _in_time(outcome: ComparisonOutcome) -> bool:
    return outcome.never_below == 0 and (outcome.below_p99_seconds or 0.0) <= BELOW_WITHIN_SECONDS


def _within(ratio: float | None) -> bool | None:
    return None if ratio is None else ratio <= MOST_LOST_ABOVE_NEEDED


def _worst(outcome: ComparisonOutcome) -> str:
    never = f", {outcome.never_below} never" if outcome.never_below else ""
    return f"{_number(outcome.below_p99_seconds)}{never}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:+.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"
