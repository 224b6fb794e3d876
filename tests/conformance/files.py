"""From files of vectors to verdicts per suite."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import koord_batch
import koord_histograms
from verdicts import Adaptor, Case, Verdict

DEFAULT = Path(__file__).parents[2].parent / "shared" / "vectors"
ADAPTORS: Mapping[str, Mapping[str, Adaptor]] = {
    "koord-colocation-vectors/1": {**koord_batch.ADAPTORS, **koord_histograms.ADAPTORS},
}
"""By schema and suite. A suite that is not here is not covered, and is told so."""


@dataclass(frozen=True)
class Judged:
    """One case and its verdict."""

    file: str
    suite: str
    id: str
    verdict: Verdict


def chosen_files(given: Iterable[str] = ()) -> list[Path]:
    """The files or folders named, else VECTORS, else ../shared/vectors if it is there."""
    names = [Path(name) for name in given] or [Path(os.environ.get("VECTORS") or DEFAULT)]
    found = [file for path in names for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    return [file for file in found if file.is_file()]


def judge_file(path: Path) -> Iterator[Judged]:
    document = json.loads(path.read_text())
    adaptors = ADAPTORS.get(document.get("schema", ""), {})
    for suite, case in _cases(document):
        adaptor = adaptors.get(suite)
        verdict = adaptor(case) if adaptor else Verdict("not covered", "suite not built")
        yield Judged(path.name, suite, str(case.get("id", "?")), verdict)


def by_suite(judged: Iterable[Judged]) -> dict[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in judged:
        counts[one.file, one.suite][one.verdict.word] += 1
    return counts


def _cases(document: Mapping[str, Any]) -> Iterator[tuple[str, Case]]:
    """Every schema has its own nesting; what we know of the others is how many cases there are."""
    if "suites" in document:
        for suite in document["suites"]:
            for case in suite["cases"]:
                yield suite["id"], case
        return
    for case in document.get("cases") or document.get("vectors") or ():
        suite = case.get("suite") or case.get("kind") or case.get("group") or case.get("area") or "all"
        yield str(suite), case
    for group in document.get("groups") or ():
        if isinstance(group, Mapping):
            for case in group.get("cases", ()):
                yield str(group.get("id") or group.get("name")), case
