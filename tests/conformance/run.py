"""Pass, differ, not covered, FAIL per suite; exit status 1 on any FAIL.

python tests/conformance/run.py [FILE or FOLDER …]
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from files import Judged, by_suite, chosen_files, judge_file
from verdicts import WORDS


def main(arguments: Sequence[str]) -> int:
    """Print the table, a line per failure and the difference, and the totals."""
    files = chosen_files(arguments)
    if not files:
        sys.stderr.write("no vectors: name a file or folder, as VECTORS=… or as an argument\n")
        return 2
    judged = [one for file in files for one in judge_file(file)]
    sys.stdout.write("\n".join(_table(judged)) + "\n")
    totals = Counter(one.verdict.word for one in judged)
    sys.stdout.write(", ".join(f"{totals[word]} {word}" for word in WORDS) + "\n")
    return 1 if totals["FAIL"] else 0


def _table(judged: Sequence[Judged]) -> Iterator[str]:
    yield f"{'file':28} {'suite':26}" + "".join(f"{word:>13}" for word in WORDS)
    for (file, suite), counts in by_suite(judged).items():
        yield f"{file:28} {suite:26}" + "".join(f"{counts[word] or '-':>13}" for word in WORDS)
    for one in judged:
        if one.verdict.word in ("FAIL", "differ"):
            yield f"{one.verdict.word:7} {one.file} {one.id}: {one.verdict.why}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
