"""`make world ARGS=--mutants`: looks for a seed that finds each mutant, and prints the table.

A mutant counts as found if an expected invariant fails with it and the same seed holds without it. An exception, a run
that does not end and any other invariant say nothing about the mutant, and the search goes on. A mutant of a guard that
the world has not is found by a test that fails with it and passes without.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.world.campaign import prepare, show
from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import DoesNotFit
from tests.world.mutants.registry import MUTANTS
from tests.world.mutants.tested import tests_that_find
from tests.world.plan import Plan
from tests.world.replay import page_of
from tests.world.run import Child, Outcome, Wanted, perform
from tests.world.swarm import draw
from tests.world.timeline.history import read_history

EVICT = "evict"
SKEWED_SECONDS = 3.0
PLANS = Path(__file__).parent / "plans"
_LINE = "{:<36} {:>5} {:>8} {:>6} {:>7}  {}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one search. `seed` is None if no seed found the mutant."""

    mutant: str
    mended: str
    seed: int | str | None
    at: float
    invariant: str
    failure: str
    tried: int
    cpu_seconds: float

    def line(self) -> str:
        seed, at = ("-", "-") if self.seed is None else (str(self.seed), f"{self.at:.1f} s")
        return _LINE.format(self.mutant, seed, at, self.tried, f"{self.cpu_seconds:.1f} s", self.invariant)


def find_all(options: argparse.Namespace) -> int:
    """Search for the named mutants, or all. Returns 1 if one was not found."""
    mutants = chosen(options.mutants)
    by_tests = [mutant for mutant in mutants if mutant.tests]
    by_seeds = [mutant for mutant in mutants if not mutant.tests]
    prepare(runs=len(by_seeds) * options.tries)
    show(_LINE.format("mutant", "seed", "at", "tried", "CPU", "invariant or test"))
    findings: list[Finding] = []
    for name, test in tests_that_find(by_tests).items():
        finding = Finding(name, "", "tests" if test else None, 0.0, test or "not found: holds", test, 1, 0.0)
        show(finding.line())
        findings.append(finding)
    with ThreadPoolExecutor(options.workers) as threads:
        searches = [threads.submit(searched, mutant, options) for mutant in by_seeds]
        for search in as_completed(searches):
            finding = search.result()
            show(finding.line())
            if finding.failure and options.logs:
                show(f"    {finding.failure}")
            findings.append(finding)
    if options.json:
        options.json.write_text("".join(f"{json.dumps(asdict(finding))}\n" for finding in findings))
    found = sum(finding.seed is not None for finding in findings)
    show(f"{found} of {len(findings)} mutants found, {sum(one.cpu_seconds for one in findings):.0f} s of CPU")
    return 0 if found == len(findings) else 1


def chosen(names: Sequence[str]) -> Sequence[Mutant]:
    """The mutants of these names, or all. Raises SystemExit for an unknown name."""
    unknown = sorted(set(names) - {mutant.name for mutant in MUTANTS})
    if unknown:
        raise SystemExit(f"no mutant {unknown[0]!r}; there are: {', '.join(mutant.name for mutant in MUTANTS)}")
    return [mutant for mutant in MUTANTS if not names or mutant.name in names]


def searched(mutant: Mutant, options: argparse.Namespace) -> Finding:
    """Try seeds until an invariant fails."""
    nothing = Finding(mutant.name, mutant.mended, None, 0.0, f"not found: {mutant.hole or 'holds'}", "", 0, 0.0)
    if mutant.hole:
        return nothing
    tried, cpu, crashed = 0, 0.0, ""
    for seed in seeds_of(mutant, options):
        outcome = performed(mutant, seed, options)
        tried, cpu = tried + 1, cpu + outcome.cpu_seconds
        if is_evidence(mutant, outcome):
            plain = performed(replace(mutant, edits=()), seed, options)
            cpu += plain.cpu_seconds
            if not plain.failure:
                name, failure = outcome.invariant, outcome.failure
                if options.html is not None:
                    write_page(mutant, seed, options)
                return Finding(mutant.name, mutant.mended, seed, outcome.at, name, failure, tried, cpu)
        elif outcome.failure:
            crashed = f"not found; seed {seed}: {outcome.failure}"
    return replace(nothing, invariant=crashed or nothing.invariant, tried=tried, cpu_seconds=cpu)


def seeds_of(mutant: Mutant, options: argparse.Namespace) -> Iterable[int | str]:
    """The known seed, then those whose plans can show the mutant, then all others."""
    others = range(options.first, options.first + options.seeds)
    likely = sorted(others, key=lambda seed: not is_likely(mutant, plan_of(mutant, seed, options)))
    known: list[int | str] = [] if mutant.seed is None else [mutant.seed]
    return [*known, *(seed for seed in likely if seed not in known)][: options.tries]


def plan_of(mutant: Mutant, seed: int | str, options: argparse.Namespace) -> Plan:
    if isinstance(seed, str):
        return Plan.from_json((PLANS / seed).read_text())
    nodes, seconds = mutant.size
    nodes, seconds = options.nodes or nodes, options.seconds or seconds
    return draw(seed, nodes=nodes, seconds=seconds, quotas=mutant.quotas, moves=mutant.moves)


def is_likely(mutant: Mutant, plan: Plan) -> bool:
    """Whether a plan has what the mutant needs."""
    evicts = plan.settings["ensurance"]["mode"] == EVICT and any(c.kind == "NodeQOS" for c in plan.changes[:4])
    present = {fault.kind for fault in plan.faults}
    present |= {f"{fault.kind}@{fault.target.partition('-')[0]}" for fault in plan.faults}
    is_skewed = max(map(abs, plan.clock_offsets.values()), default=0.0) > SKEWED_SECONDS
    has_faults = all(present & set(needed.split("|")) for needed in mutant.faults)
    return has_faults and (evicts or not mutant.evicts) and (is_skewed or not mutant.skewed)


def write_page(mutant: Mutant, seed: int | str, options: argparse.Namespace) -> None:
    """Perform a seed with the mutant once more, and write its timeline to --html. Raises DoesNotFit."""
    with tempfile.TemporaryDirectory() as folder:
        trace_file = Path(folder) / "trace.jsonl"
        outcome = performed(mutant, seed, options, Wanted(trace_file=trace_file))
        history = read_history(trace_file.read_text().splitlines())
    again = f"make world ARGS='--mutants \"{mutant.name}\"'"
    options.html.write_text(page_of(plan_of(mutant, seed, options), outcome, history, again))


def performed(mutant: Mutant, seed: int | str, options: argparse.Namespace, wanted: Wanted | None = None) -> Outcome:
    """The outcome of a seed with the mutant. Raises DoesNotFit."""

    def work() -> Outcome | DoesNotFit:
        try:
            mutant.plant()
        except DoesNotFit as error:
            return error
        return perform(plan_of(mutant, seed, options), wanted)

    try:
        outcome = Child(work).result()
    except (RuntimeError, TimeoutError) as error:
        return Outcome(plan_of(mutant, seed, options).seed, "", 0, 0.0, 0, {}, {}, f"the run: {error}")
    if isinstance(outcome, DoesNotFit):
        raise outcome
    return outcome


def is_evidence(mutant: Mutant, outcome: Outcome) -> bool:
    """Whether an invariant failed that the mutant is expected to violate."""
    return outcome.invariant.removesuffix(" (at rest)") in mutant.expected
