"""The end of a run in words that need no knowledge of Slackwater: per scene what was shown, without and with, and one
word on it. Plain ASCII; narrow terminals get three lines per figure. Pure functions.
"""

from __future__ import annotations

from slackwater.demo.summary import EXITS, Comparison, RunSummary, SceneSummary, exit_status


def lines(summary: RunSummary, width: int) -> list[str]:
    """Returns the table with what was left out and why, for a terminal of this width."""
    shown = {name: scene for name, scene in summary.scenes.items() if scene.is_shown}
    found = _wide(shown) if shown else []
    if max(map(len, found), default=0) > width:
        found = _narrow(shown)
    whys = {compared.why: None for scene in shown.values() for compared in scene.comparisons if compared.why}
    if whys:
        found.append(f"too few to tell: {next(iter(whys))}; more turns: make run SCENE={next(iter(shown))}")
    found += [f"{name}: {note}" for name, scene in shown.items() for note in scene.notes]
    reasons: dict[str, list[str]] = {}
    for name, scene in summary.scenes.items():
        if scene.left_out:
            reasons.setdefault(scene.left_out, []).append(name)
    return found + [f"{', '.join(names)}: left out, {why}" for why, names in reasons.items()]


def _wide(shown: dict[str, SceneSummary]) -> list[str]:
    cells = [("scene", "figure", "without", "with Slackwater", "verdict")]
    for name, scene in shown.items():
        for place, compared in enumerate(scene.comparisons):
            cells.append((name if not place else "", *_figures(compared)))
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    text = ["  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return [text[0], "-" * max(map(len, text)), *text[1:]]


def _narrow(shown: dict[str, SceneSummary]) -> list[str]:
    found = []
    for name, scene in shown.items():
        for compared in scene.comparisons:
            figure, without, ours, word = _figures(compared)
            found.append(f"{name}: {figure}")
            found += [f"  without: {without}"] if without else []
            found.append(f"  with Slackwater: {ours}{f', {word}' if word else ''}")
    return found


def _figures(compared: Comparison) -> tuple[str, str, str, str]:
    return compared.figure, compared.without, compared.with_slackwater, compared.word or ""


def next_steps(summary: RunSummary) -> list[str]:
    """Returns what a user may try, and where the console is."""
    if not summary.commands:
        return []
    begin, console = "try:", f"{summary.console_url}/demo"
    if not summary.stays_up:
        begin = "try, answered from what this run recorded:"
        console = "make run (without SECONDS) stays up and prints its address"
    return [begin, *(f"  {command}" for command in summary.commands), f"console: {console}"]


def ending(summary: RunSummary) -> list[str]:
    """Returns what was put back, what failed, and the exit status."""
    files = f"{summary.restored_files} files restored exactly" if summary.restored_exactly else "files NOT restored"
    status = exit_status(summary)
    said = f"exit {status}: {EXITS[status]}" if status is not None else EXITS[status]
    return [
        *(f"FAILED: {failure}" for failure in summary.failures),
        f"{files}, {len(summary.leftovers) or 'nothing'} left behind; took {summary.took_seconds:.0f} s",
        said,
    ]
