"""One seed or one plan in detail: its record, the timeline of its failure, and a smaller plan that fails alike."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.world.campaign import command, listed, prepare, show
from tests.world.plan import Plan
from tests.world.run import Child, Outcome, Wanted, described, perform
from tests.world.shrinking.forked import ForkedRunner
from tests.world.shrinking.shrinker import shrink, size
from tests.world.swarm import draw
from tests.world.timeline.history import History, read_history
from tests.world.timeline.page import Facts, render_page
from tests.world.timeline.text import render_text
from tests.world.twice import differs

SMALLEST_PLANS = Path(".slackwater/world")


def replay(options: argparse.Namespace) -> int:
    """Perform one plan and print what happened. Returns 1 if it violates an invariant."""
    plan = planned(options)
    if options.plan:
        show(plan.to_json())
        return 0
    prepare()
    outcome = _performed(plan, options)
    if options.shrink and outcome.failure:
        _shrink(plan, outcome, options)
    elif options.shrink:
        show("nothing to shrink: the run violates no invariant")
    difference = differs(outcome, options) if options.twice and options.seed is not None else ""
    if options.twice:
        show(difference or f"the same history again: {outcome.digest}")
    return 1 if outcome.failure or difference else 0


def planned(options: argparse.Namespace) -> Plan:
    """Returns the plan of --plan-file, or that of --seed."""
    if options.plan_file is not None:
        return Plan.from_json(options.plan_file.read_text())
    size = {"nodes": options.nodes, "seconds": options.seconds}
    return draw(options.seed, **size, quotas=options.quotas, moves=options.moves)


def _performed(plan: Plan, options: argparse.Namespace) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        trace_file = options.trace or Path(folder) / "trace.jsonl"
        wanted = Wanted(last_step=options.until, trace_file=trace_file, logs=options.logs)
        outcome = Child(lambda: perform(plan, wanted)).result()
        history = read_history(trace_file.read_text().splitlines())
    show(described(outcome))
    spent = f"{outcome.cpu_seconds:.2f} s of CPU, {outcome.recorded} steps of the record"
    show(f"{spent}; faults: {listed(outcome.faults)}")
    if outcome.failure or options.until is not None:
        show(render_text(history, steps=options.last, is_coloured=sys.stdout.isatty()))
    if outcome.stack and not history.is_violation:
        show(outcome.stack)
    if options.html is not None:
        file = options.plan_file
        again = command(options.seed, options) if file is None else f'make world ARGS="--plan-file {file}"'
        options.html.write_text(page_of(plan, outcome, history, again))
        show(f"timeline: {options.html}")
    return outcome


def page_of(plan: Plan, outcome: Outcome, history: History, replay_command: str) -> str:
    """The timeline as HTML."""
    phases = (("faults", plan.fault_seconds), ("quiet", plan.quiet_seconds), ("rest", plan.rest_seconds))
    facts = Facts(plan.seed, outcome.digest, size(plan), plan.seconds, phases, replay_command)
    return render_page(history, facts)


def _shrink(plan: Plan, outcome: Outcome, options: argparse.Namespace) -> None:
    runner = ForkedRunner(options.tries, options.minutes * 60, options.workers, report=show)
    show(f"shrinking {size(plan)}, which violates: {outcome.invariant}")
    shrunk = shrink(plan, outcome, runner, show)
    file = options.smallest or SMALLEST_PLANS / f"seed-{plan.seed}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{shrunk.plan.to_json()}\n")
    ending = "nothing smaller fails" if shrunk.is_minimal else "stopped by --tries or --minutes"
    show(f"{shrunk.tries} tries, {ending}: {size(shrunk.plan)}; fails at {shrunk.outcome.at:.1f} s")
    show(f'smallest plan: {file}\n  replay: make world ARGS="--plan-file {file}"')
