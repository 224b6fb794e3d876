"""One run: a plan performed in a world, in a forked process of its own.

The fork gives every run the same state of imported modules, whatever ran before, and its end frees the coroutines of
crashed processes without running their `finally` blocks.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

from tests.world.guard import Guard
from tests.world.history import History
from tests.world.logs import recorded_errors
from tests.world.loop import Failed
from tests.world.plan import Plan
from tests.world.trace import Kind, Trace

R = TypeVar("R")
LONGEST_RUN_SECONDS = 120.0
"""Of CPU: a run that takes longer does not end."""
OVERDUE = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. `failure` is empty or the violated invariant with what was seen; `at` is virtual."""

    seed: int
    digest: str
    steps: int
    at: float
    recorded: int
    counts: Mapping[str, int]
    faults: Mapping[str, int]
    failure: str = ""
    cpu_seconds: float = 0.0
    stack: str = ""

    @property
    def invariant(self) -> str:
        """The name of the violated invariant."""
        return self.failure.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How far a run goes and what it keeps."""

    last_step: int | None = None
    trace_file: Path | None = None
    logs: bool = False


def perform(plan: Plan, wanted: Wanted | None = None) -> Outcome:
    """Perform a plan in this process, which must end with it. Raises nothing: what fails is in the outcome."""
    wanted = wanted or Wanted()
    begun = time.process_time()
    trace = Trace(kept=[] if wanted.trace_file is not None else None)
    gc.disable()
    world = History(plan, trace)
    guard = Guard(plan.seed, world.loop, world.wall_seconds, world.loop.fail)
    failure = stack = ""
    with recorded_errors(world.record, shows_all=wanted.logs), guard.armed():
        try:
            world.run(wanted.last_step)
        except Failed as failed:
            failure, _, stack = str(failed).partition("\n")
        except BaseException as error:  # noqa: BLE001 - of the world itself, or of the guard
            failure, stack = f"the world: {type(error).__name__}: {error}", traceback.format_exc()
    digest, recorded = trace.digest(), trace.count
    if failure:
        process = "" if world.loop.current is None else world.loop.current.name
        trace.add(world.loop.time(), process, Kind.VIOLATED, failure, detail={"step": world.failed_step or recorded})
    if wanted.trace_file is not None and trace.kept is not None:
        wanted.trace_file.write_text("".join(f"{step.line()}\n" for step in trace.kept))
    return Outcome(
        plan.seed,
        digest,
        world.loop.steps,
        world.loop.time(),
        recorded,
        {kind.value: count for kind, count in trace.counts.items() if count and kind is not Kind.VIOLATED},
        dict(world.faults),
        failure,
        time.process_time() - begun,
        stack,
    )


def _give_up(_: int, frame: FrameType | None) -> None:
    """A callback that never ends cannot be interrupted in any other way."""
    traceback.print_stack(frame)
    os._exit(OVERDUE)


class Child(Generic[R]):
    """Work in a forked process. Its result must be picklable.

    What the parent has dropped is not collected here: its finalizers would wait for threads that the fork left behind,
    as those of gRPC's channels do.
    """

    def __init__(self, work: Callable[[], R]) -> None:
        self.pipe, write = os.pipe()
        self._content = bytearray()
        self._pid = os.fork()
        if self._pid == 0:
            self._perform(work, write)
        os.close(write)

    @staticmethod
    def _perform(work: Callable[[], R], write: int) -> None:
        """Ends the process, without any cleaning up."""
        status = 1
        gc.freeze()
        signal.signal(signal.SIGVTALRM, _give_up)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_RUN_SECONDS)
        try:
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except BaseException:  # noqa: BLE001 - the parent sees the status
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def reads(self) -> bool:
        """Read what has come. Returns False at the end."""
        content = os.read(self.pipe, 1 << 16)
        self._content += content
        return bool(content)

    def cancel(self) -> None:
        """End the process; its result is lost."""
        os.kill(self._pid, signal.SIGKILL)
        os.close(self.pipe)
        os.waitpid(self._pid, 0)

    def result(self) -> R:
        """Wait for the end. Raises TimeoutError for a run that does not end, RuntimeError if the process has failed."""
        while self.reads():
            pass
        os.close(self.pipe)
        _, status = os.waitpid(self._pid, 0)
        if os.waitstatus_to_exitcode(status) == OVERDUE:
            raise TimeoutError(f"not done within {LONGEST_RUN_SECONDS:g} s of CPU; its last stack is above")
        if status:
            raise RuntimeError(f"the process of a run ended with status {os.waitstatus_to_exitcode(status)}")
        result: R = pickle.loads(self._content)  # noqa: S301 - of the child
        return result


def described(outcome: Outcome) -> str:
    """One line about a run."""
    result = outcome.failure or "holds"
    return f"seed {outcome.seed}  {outcome.digest}  {outcome.at:.1f} s  {outcome.steps} steps  {result}"


def as_json(outcome: Outcome) -> str:
    return json.dumps({name: getattr(outcome, name) for name in Outcome.__slots__})
