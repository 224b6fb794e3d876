"""Repeats the commands beside the figures in docs/how-to and compares what they print, or writes it into the pages.

    python tools/figures.py [--write] [--data ../shared/data] [PAGE...]

A figure is a fenced block that begins with `$ slackwater …` and reads `../shared/data`. Its lines are lines of the
command's output, in order; `...` stands for lines that are left out. Words have to be equal. Numbers may differ by
TOLERANCE: the simulations are deterministic, and only floating point differs between machines.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = "../shared/data"
TOLERANCE = 0.01
"""Share of the number in the page, and of 1 below 1."""
SECONDS = 600
LEFT_OUT = "..."
_BLOCK = re.compile(r"```\n(\$ slackwater .*?)```", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Figure:
    """A command of a page and the lines that the page shows of its output."""

    page: Path
    text: str
    command: str
    lines: tuple[str, ...]


def figures(pages: Sequence[Path]) -> Iterator[Figure]:
    """Every figure of the pages that is made of recorded data."""
    for page in pages:
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            joined = block.replace("\\\n", " ")
            command, _, shown = joined.partition("\n")
            if DATA in command:
                yield Figure(page, block, " ".join(command.removeprefix("$ ").split()), tuple(shown.splitlines()))


def output_of(figure: Figure, data: Path) -> list[str]:
    """What the command prints. Raises CalledProcessError."""
    arguments = [str(data) + word.removeprefix(DATA) if word.startswith(DATA) else word for word in _words(figure)]
    command = [sys.executable, "-m", "slackwater.cli", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=SECONDS)
    return [line.rstrip() for line in done.stdout.splitlines()]


def _words(figure: Figure) -> Sequence[str]:
    return shlex.split(figure.command)[1:]


def matched(shown: Sequence[str], printed: Sequence[str]) -> list[str | None]:
    """For each line of the page the line that was printed for it: the next one with the same words (None: none)."""
    found: list[str | None] = []
    place = 0
    for line in shown:
        if line.strip() in ("", LEFT_OUT):
            found.append(line)
            continue
        words = _words_of(line)
        at = next((number for number in range(place, len(printed)) if _words_of(printed[number]) == words), None)
        found.append(None if at is None else printed[at])
        place = place if at is None else at + 1
    return found


def _words_of(line: str) -> list[str]:
    """The words without the numbers: `2.5d` is `d`, whatever the number and the blanks between columns."""
    return _NUMBER.sub("#", line).split()


def differences(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """One line per line of the page that the command does not print, within the tolerance."""
    found = []
    for line, other in zip(shown, matched(shown, printed), strict=True):
        if other is None:
            found.append(f"not printed: {line.strip()}")
        elif not _is_near(line, other):
            found.append(f"page: {line.strip()}\n       now:  {other.strip()}")
    return found


def _is_near(line: str, other: str) -> bool:
    pairs = zip(_NUMBER.findall(line), _NUMBER.findall(other), strict=True)
    numbers = ((float(one.replace(",", "")), float(two.replace(",", ""))) for one, two in pairs)
    return all(abs(one - two) <= TOLERANCE * max(1.0, abs(one)) for one, two in numbers)


def rewritten(figure: Figure, printed: Sequence[str]) -> str:
    """The block with the lines as they are printed now. Raises ValueError for a line that is not printed any more."""
    lines = matched(figure.lines, printed)
    if None in lines:
        raise ValueError(f"{figure.page.name}: not printed any more: {figure.lines[lines.index(None)]}")
    command = figure.text[: len(figure.text) - len("\n".join(figure.text.split("\n")[-len(figure.lines) - 1 :]))]
    return command + "\n".join(str(line) for line in lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Repeat the commands beside the figures in docs.")
    parser.add_argument("--write", action="store_true", help="write what is printed into the pages")
    parser.add_argument("--data", type=Path, default=ROOT / DATA, help="folder of the recorded data")
    parser.add_argument("pages", nargs="*", type=Path, default=sorted((ROOT / "docs" / "how-to").glob("*.md")))
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.stderr.write(f"{arguments.data}: no such folder; give the recorded data with --data\n")
        return 2
    failed = 0
    for figure in figures(arguments.pages):
        printed = output_of(figure, arguments.data.resolve())
        wrong = differences(figure.lines, printed)
        if wrong and arguments.write:
            text = figure.page.read_text(encoding="utf-8")
            figure.page.write_text(text.replace(figure.text, rewritten(figure, printed)), encoding="utf-8")
        failed += bool(wrong)
        sys.stdout.write(f"{'differs' if wrong else 'as shown'}  {figure.page.name}: {figure.command}\n")
        sys.stdout.writelines(f"       {line}\n" for line in wrong)
    return 1 if failed and not arguments.write else 0


if __name__ == "__main__":
    sys.exit(main())
