"""Many seeds, some at a time, with progress."""

from __future__ import annotations

import argparse
import gc
import importlib
import selectors
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from typing import Any

import nats.js.api
from tests.bench.machine import conditions, read_machine
from tests.bench.verdict import REFERENCE_ROUNDS_PER_SECOND, Conditions
from tests.support.postgres_twin.migrated import migrated
from tests.world.guard import modules_that_ask_for_now
from tests.world.invariants import all_invariants
from tests.world.plan import OUTBOXES
from tests.world.run import Child, Outcome, Wanted, as_json, described, perform
from tests.world.swarm import draw
from tests.world.twice import differs
from tests.world.warm_up import warm_up

from slackwater.store.migrations import Schema

PROGRESS_SECONDS = 10.0
WORTH_WARMING_UP = 10
"""Runs: a warm-up costs a second, and saves each run about 0.1 s."""
IMPORTED_LATE = (
    "_strptime",
    "slackwater.agent.usecases.guard_disconnected",
    "slackwater.descheduler.usecases.descheduler_profile",
    "slackwater.prediction.adapters.predictors.built_in",
)
"""Modules that are imported where they are first used."""
NODES, SECONDS = 10, 600.0
"""Of a seed, unless the command line says otherwise."""


def show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@cache
def fields_of(model: type[Any]) -> tuple[Field[Any], ...]:
    return fields(model)


def _quick_fields(model: Any) -> tuple[Field[Any], ...]:
    return fields_of(model if isinstance(model, type) else type(model))


def prepare(*, runs: int = 1) -> None:
    """Import and read everything before the first fork, so that no run pays for it. Many runs pay for a warm-up."""
    all_invariants()
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    for service in OUTBOXES:
        migrated(Schema.of(service))
    modules_that_ask_for_now()
    if runs >= WORTH_WARMING_UP:
        warm_up()
        modules_that_ask_for_now.cache_clear()
        modules_that_ask_for_now()
    api: Any = nats.js.api
    api.fields = _quick_fields  # one request of nats-py asks for them six times
    gc.collect()
    gc.freeze()


def outcome_of(seed: int, options: argparse.Namespace, wanted: Wanted | None = None) -> Outcome:
    return perform(
        draw(seed, nodes=options.nodes, seconds=options.seconds, quotas=options.quotas, moves=options.moves), wanted
    )


def checked_outcome_of(seed: int, options: argparse.Namespace) -> Outcome:
    """The outcome of a seed; each --twice-each'th is performed again, and fails if its hash differs."""
    outcome = outcome_of(seed, options)
    if outcome.failure or not options.twice_each or seed % options.twice_each:
        return outcome
    difference = differs(outcome, options)
    return replace(outcome, failure=f"one hash: {difference}") if difference else outcome


@dataclass
class Progress:
    """What has been done so far."""

    seeds: int
    begun: float = field(default_factory=time.monotonic)
    shown: float = field(default_factory=time.monotonic)
    done: int = 0
    cpu_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.done += 1
        self.cpu_seconds += outcome.cpu_seconds
        self.faults.update(outcome.faults)
        if outcome.failure:
            self.failures.append(outcome)
            show(f"FAILED {described(outcome)}")
        if time.monotonic() - self.shown >= PROGRESS_SECONDS:
            self.shown = time.monotonic()
            show(self.text())

    def text(self) -> str:
        minutes = (time.monotonic() - self.begun) / 60
        pace = f"{self.done / minutes:.0f} seeds a minute, {self.cpu_seconds / max(1, self.done):.2f} s of CPU each"
        return f"{self.done}/{self.seeds} seeds, {len(self.failures)} failed, {pace}; faults: {listed(self.faults)}"


def campaign(options: argparse.Namespace) -> int:
    """Perform many seeds. Returns 1 if any violates an invariant."""
    prepare(runs=options.seeds)
    seeds = range(options.first, options.first + options.seeds)
    progress, before = Progress(len(seeds)), read_machine()
    lines = options.json.open("w") if options.json else None
    try:
        for outcome in performed(seeds, options):
            progress.add(outcome)
            if lines is not None:
                lines.write(f"{as_json(outcome)}\n")
    finally:
        if lines is not None:
            lines.close()
    show(progress.text())
    show(speed(progress, conditions(before, read_machine())))
    for outcome in progress.failures:
        show(f"seed {outcome.seed}: {outcome.failure}\n  replay: {command(outcome.seed, options)}")
    return 1 if progress.failures else 0


def speed(progress: Progress, seen: Conditions) -> str:
    """One line: CPU seconds of a seed as a machine of the reference calibration would take them."""
    each = progress.cpu_seconds / max(1, progress.done)
    at = REFERENCE_ROUNDS_PER_SECOND / 1e6
    return f"calibration {seen.calibration / 1e6:.2f} M: {each * seen.speed:.2f} s of CPU a seed at {at:.1f} M"


def command(seed: int, options: argparse.Namespace) -> str:
    """The command line that replays a seed."""
    given = [f"--seed {seed}"]
    given += [f"--nodes {options.nodes}"] if options.nodes != NODES else []
    given += [f"--seconds {options.seconds:g}"] if options.seconds != SECONDS else []
    given += ["--quotas"] if options.quotas else []
    given += ["--moves"] if options.moves else []
    return f'make world ARGS="{" ".join(given)}"'


def performed(seeds: range, options: argparse.Namespace) -> Iterator[Outcome]:
    """The outcomes, in the order in which they end."""
    waiting = iter(seeds)
    with selectors.DefaultSelector() as selector:

        def start() -> None:
            seed = next(waiting, None)
            if seed is not None:
                child = Child(lambda: checked_outcome_of(seed, options))
                selector.register(child.pipe, selectors.EVENT_READ, (seed, child))

        for _ in range(options.workers):
            start()
        while selector.get_map():
            for key, _ in selector.select():
                seed, child = key.data
                if child.reads():
                    continue
                selector.unregister(key.fileobj)
                try:
                    outcome = child.result()
                except (RuntimeError, TimeoutError) as error:
                    outcome = Outcome(seed, "", 0, 0.0, 0, {}, {}, f"the run: {error}")
                start()
                yield outcome


def listed(counts: Mapping[str, int]) -> str:
    """Returns counts by name, the most frequent first."""
    return ", ".join(f"{name} {count}" for name, count in Counter(counts).most_common()) or "none"
