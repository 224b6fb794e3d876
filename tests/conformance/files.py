"""From files of vectors to verdicts per suite."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crane_counters
import crane_passes
import crane_percentile
import crane_policies
import crane_signals
import crane_waterlines
import kernel_files
import koord_batch
import koord_cpus
import koord_descheduler
import koord_gates
import koord_histograms
import koord_mid
import koord_predictors
import koord_profiles
import koord_quota
import koord_quota_claims
import koord_quota_manager
import koord_quota_pools
import koord_quota_rules
import koord_server
import koord_strategies
import koordlet_eviction
import koordlet_isolation
import qrm_cpus
import qrm_hints
import qrm_manager
import qrm_plugins
import qrm_pools
import qrm_seeds
from limits import verdict_within_bounds
from outstanding import reason_of
from qrm_cases import whole
from verdicts import Adaptor, Case, Verdict, not_covered

DEFAULT = Path(__file__).parents[2].parent / "shared" / "vectors"
ADAPTORS: Mapping[str, Mapping[str, Adaptor]] = {
    "koord-colocation-vectors/1": {
        **koord_batch.ADAPTORS,
        **koord_gates.ADAPTORS,
        **koord_mid.ADAPTORS,
        **koord_histograms.ADAPTORS,
        **koord_predictors.ADAPTORS,
        **koord_server.ADAPTORS,
        **koord_strategies.ADAPTORS,
    },
    "crane": {
        **crane_percentile.ADAPTORS,
        **crane_signals.ADAPTORS,
        **crane_waterlines.ADAPTORS,
        **crane_counters.ADAPTORS,
        **crane_passes.ADAPTORS,
        **crane_policies.ADAPTORS,
        **koordlet_isolation.CRANE,
        **kernel_files.CRANE,
    },
    "koordlet-qos-vectors/1": {
        **koordlet_eviction.ADAPTORS,
        **koordlet_isolation.KOORDLET,
        **kernel_files.KOORDLET,
    },
    "koord-quota-sched-vectors/1": {
        **koord_quota.ADAPTORS,
        **koord_quota_rules.ADAPTORS,
        **koord_quota_claims.ADAPTORS,
        **koord_quota_manager.ADAPTORS,
        **koord_quota_pools.ADAPTORS,
        **koord_profiles.ADAPTORS,
        **koord_cpus.ADAPTORS,
    },
    "koord-descheduler-vectors/1": koord_descheduler.ADAPTORS,
    "qrm": {
        **qrm_hints.ADAPTORS,
        **qrm_cpus.ADAPTORS,
        **qrm_pools.ADAPTORS,
        **qrm_plugins.ADAPTORS,
        **qrm_manager.ADAPTORS,
        **qrm_seeds.ADAPTORS,
    },
}
"""By schema and suite. A suite that is not here is not covered, and is reported so."""


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
    if not isinstance(document, Mapping):
        raise ValueError(f"no vectors: an object is expected, not a {type(document).__name__}")
    schema = schema_of(document)
    adaptors = ADAPTORS.get(schema, {})
    for number, (suite, case) in enumerate(cases_of(document)):
        adaptor = adaptors.get(suite)
        verdict = judge(adaptor, case) if adaptor else not_covered(reason_of(schema, suite))
        named = case if isinstance(case, Mapping) else {}
        yield Judged(path.name, suite, str(named.get("id") or named.get("name") or number), verdict)


def judge(adaptor: Adaptor, case: Case) -> Verdict:
    """The verdict on any JSON; what is no object fails."""
    if not isinstance(case, Mapping):
        return Verdict("FAIL", f"a case is an object, not a {type(case).__name__}")
    return verdict_within_bounds(adaptor, case)


def by_suite(judged: Iterable[Judged]) -> dict[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in judged:
        counts[one.file, one.suite][one.verdict.word] += 1
    return counts


def schema_of(document: Mapping[str, Any]) -> str:
    """What the file calls its schema; those that do not are known by their source."""
    if "schema" in document:
        return str(document["schema"])
    if "topologies" in document:
        return "qrm"
    source = document.get("source")
    repository = str(source.get("repo", "")) if isinstance(source, Mapping) else ""
    return "crane" if repository.endswith("/crane") else repository or "unknown"


def cases_of(document: Mapping[str, Any]) -> Iterator[tuple[str, Case]]:
    """Every case with its suite. Each schema nests its own way; a file with no cases of any is refused by a ValueError.

    `suites` and `groups` are lists of parts with cases; `cases` and `vectors` lists of cases that name their part.
    """
    parts = [part for name in ("suites", "groups") if isinstance(document.get(name), list) for part in document[name]]
    flat = [case for name in ("cases", "vectors") if isinstance(document.get(name), list) for case in document[name]]
    if not parts and not flat:
        raise ValueError("no vectors: neither suites, groups, cases nor vectors is a list here")
    for part in parts:
        cases = part.get("cases", ()) if isinstance(part, Mapping) else ()
        for case in cases if isinstance(cases, list) else ():
            yield _named(part, ("id", "name", "kind")), whole(document, part, case)
    for case in flat:
        yield _named(case, ("suite", "kind", "group", "area")), case


def _named(what: Mapping[str, Any], names: Iterable[str]) -> str:
    if not isinstance(what, Mapping):
        return "all"
    return next((str(what[name]) for name in names if what.get(name)), "all")
