"""`N passed, M failed, K differ`, with a line per failure and difference and the count of what is not covered.

python tests/conformance/run.py [FILE or FOLDER …]; exit status 1 on any failure, 2 without vectors.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from files import Judged, by_suite, chosen_files, judge_file
from verdicts import WORDS


def main(arguments: Sequence[str]) -> int:
    """Print the table, the lines and the totals."""
    files = chosen_files(arguments)
    if not files:
        sys.stderr.write("no vectors: name a file or folder, as VECTORS=… or as an argument\n")
        return 2
    judged: list[Judged] = []
    for file in files:
        try:
            judged += judge_file(file)
        except ValueError as error:  # no JSON, no text, no vectors
            sys.stderr.write(f"{file.name}: {error}\n")
            return 2
    sys.stdout.write("\n".join((*_table(judged), *_lines(judged), *_left_out(judged), totals(judged))) + "\n")
    return 1 if any(one.verdict.word == "FAIL" for one in judged) else 0


def totals(judged: Sequence[Judged]) -> str:
    """What is not covered is no part of it: it has lines of its own."""
    words = Counter(one.verdict.word for one in judged)
    return f"{words['pass']} passed, {words['FAIL']} failed, {words['differ']} differ"


def _table(judged: Sequence[Judged]) -> Iterator[str]:
    """The suites of which something is covered."""
    yield f"{'file':24} {'suite':24}" + "".join(f"{word:>13}" for word in WORDS)
    for (file, suite), counts in by_suite(judged).items():
        if set(counts) != {"not covered"}:
            yield f"{file:24} {suite:24}" + "".join(f"{counts[word] or '-':>13}" for word in WORDS)


def _lines(judged: Sequence[Judged]) -> Iterator[str]:
    for one in judged:
        if one.verdict.word in ("FAIL", "differ"):
            yield f"{one.verdict.word:7} {one.file} {one.id}: {one.verdict.why}"


def _left_out(judged: Sequence[Judged]) -> Iterator[str]:
    """Every case without an answer: how many, of which suites, and the adaptor that is to cover them."""
    suites: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in judged:
        if one.verdict.word == "not covered":
            suites[one.file, one.verdict.why][one.suite] += 1
    for (file, why), counts in suites.items():
        named = ", ".join(f"{suite} {count}" for suite, count in counts.items())
        yield f"not covered {file}: {sum(counts.values())} cases ({why}): {named}"
    if suites:
        yield f"not covered in all: {sum(sum(counts.values()) for counts in suites.values())} cases"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
