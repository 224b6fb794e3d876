"""Carries out steps on knobs, journal first, and restores every knob.

The order makes a crash harmless: a claim is on disk before the first write of its knob, every text is recorded before
it is written, a release is recorded after the previous text is back.

While the disk takes no records, nothing is written that could not be restored: the steps fail with a reason, and
restores go on. Records that could not be written stay in memory, and the journal is rewritten as soon as it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from slackwater.agent.domain.convergence import Do, KnobStep
from slackwater.agent.domain.journal import Claim, Journal, Record, record
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.ports import Driver, JournalFile
from slackwater.model.errors import Misconfigured, NotFound, Unavailable
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.spans import step_of_current

_log = get_logger(__name__)
_COMPACT_ABOVE = 512
_SETTLED_KEPT = 2048


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """One file that was ever written: its previous text and its text now (None = it is gone)."""

    path: str
    previous: str
    now: str | None


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """`exact`: every file that still exists holds its previous text, read again."""

    files: tuple[RestoredFile, ...] = ()

    @property
    def exact(self) -> bool:
        return all(file.now is None or file.now == file.previous for file in self.files)


@dataclass(slots=True)
class Outcome:
    """The result of some steps: refused or vanished knobs with a stable reason, and those yielded to others."""

    errors: dict[Knob, str] = field(default_factory=dict)
    yielded: dict[Knob, str] = field(default_factory=dict)
    done: int = 0


@dataclass(slots=True)
class Actuator:
    """Driver and journal together: the only place that writes to the machine."""

    driver: Driver
    file: JournalFile
    journal: Journal = field(default_factory=Journal)
    performed: Callable[[Outcome], None] = lambda outcome: None
    """Called with the outcome of every plan."""
    _settled: dict[Knob, str] = field(default_factory=dict)
    _appended: int = 0
    _behind: bool = False
    """Whether the file differs from the journal in memory."""
    _trouble: str = ""
    """Why the last record could not be written; logged once, until one is written again."""

    def recover(self) -> RestoreReport:
        """Restore what a crashed run left, before anything else is done."""
        self.journal = self.file.load()
        return self.restore_all()

    def perform(self, steps: Sequence[KnobStep]) -> Outcome:
        """Carry out a plan. A refused write keeps its claim (the knob still holds what it held)."""
        outcome = Outcome()
        if not steps:
            return outcome
        with step_of_current("agent actuate", {"steps": len(steps)}) as actuation:
            refused = self._record_writes([step for step in steps if step.do is Do.WRITE])
            for step in steps:
                if refused and step.do is Do.WRITE:
                    outcome.errors[step.knob] = refused
                else:
                    self._carry_out(step, outcome)
            self._compact()
            actuation.note({"done": outcome.done, "yielded": len(outcome.yielded)})
            if outcome.errors:
                actuation.failed(", ".join(sorted(set(outcome.errors.values()))))
        self.performed(outcome)
        return outcome

    def restore_all(self) -> RestoreReport:
        """Write the previous text of every claimed knob, last claim first; leave what others changed; re-read all.

        What is refused is tried again while anything else was taken. A knob that is refused then stays claimed: the
        next run tries again, and does not take the agent's text for the original.
        """
        knobs = reversed(self.journal.knobs())
        left = {knob: claim for knob in knobs if (claim := self.journal.claim_of(knob)) is not None}
        self._settled.update({knob: claim.previous for knob, claim in left.items()})
        refused = self._refused(left)
        while 0 < len(refused) < len(left):  # what the kernel took may allow the others: a parent's limit, say
            left, refused = refused, self._refused(refused)
        left = refused
        report = RestoreReport(
            tuple(
                RestoredFile(knob.path, previous, self._text_now(knob))
                for knob, previous in sorted(self._settled.items())
            )
        )
        self.journal = Journal({knob: left[knob] for knob in reversed(left)})
        self._settled.clear()
        self._rewrite()
        return report

    def _refused(self, claims: Mapping[Knob, Claim]) -> dict[Knob, Claim]:
        """Write the previous texts in this order; returns what was refused."""
        refused: dict[Knob, Claim] = {}
        for knob, claim in claims.items():
            try:
                present = self.driver.read(knob)
                if present != claim.previous and claim.ours(present):
                    self.driver.write(knob, claim.previous)
            except NotFound:
                pass
            except Misconfigured:
                refused[knob] = claim
        return refused

    def adopt(self, knob: Knob) -> None:
        """Forget what a knob that is not claimed held before: its owner has written it, so there is nothing to give
        back."""
        self._settled.pop(knob, None)

    def given_back(self) -> Collection[Knob]:
        """The knobs whose previous text is compared at the end."""
        return self._settled.keys()

    def read(self, knob: Knob) -> str | None:
        """The text now; None when it is gone. Raises Misconfigured when that cannot be known."""
        try:
            return self.driver.read(knob)
        except NotFound:
            return None

    def read_all(self, knobs: Iterable[Knob]) -> dict[Knob, str | None]:
        """The texts of the knobs that can be read now; the others are left out."""
        values: dict[Knob, str | None] = {}
        for knob in knobs:
            with suppress(Misconfigured):
                values[knob] = self.read(knob)
        return values

    def _text_now(self, knob: Knob) -> str | None:
        try:
            return self.read(knob)
        except Misconfigured as error:
            return error.message

    def _record_writes(self, writes: Sequence[KnobStep]) -> str:
        """Record the texts that are about to be written; returns the reason where that is not possible."""
        lines: list[Record] = []
        for step in writes:
            if step.claim:
                lines.append(record("claim", step.knob, step.previous))
            lines.append(record("write", step.knob, step.text))
        if not lines:
            return ""
        if self._behind and not self._rewrite():
            return self._trouble
        try:
            self.file.append(lines, sync=any(step.claim for step in writes))
        except Unavailable as error:
            self._failed(error)
            return error.code
        self._trouble = ""
        self._apply(lines)
        return ""

    def _record(self, *lines: Record) -> None:
        """Record what has happened; if the file cannot be written now, its next rewrite has it."""
        try:
            if not self._behind:
                self.file.append(lines, sync=False)
        except Unavailable as error:
            self._behind = True
            self._failed(error)
        self._apply(lines)

    def _apply(self, lines: Sequence[Record]) -> None:
        self._appended += len(lines)
        for line in lines:
            self.journal.apply(line)

    def _rewrite(self) -> bool:
        """Make the file what the journal is; False if the disk does not take it."""
        try:
            self.file.replace(self.journal)
        except Unavailable as error:
            self._behind = True
            self._failed(error)
            return False
        self._behind, self._trouble, self._appended = False, "", 0
        return True

    def _failed(self, error: Unavailable) -> None:
        if not self._trouble:
            _log.error("journal not written", error=error.message)
        self._trouble = error.code

    def _carry_out(self, step: KnobStep, outcome: Outcome) -> None:
        match step.do:
            case Do.WRITE | Do.RESTORE:
                self._write(step, outcome)
            case Do.RELEASE:
                self._release(step.knob, step.previous)
            case Do.FORGET:
                self._record(record("release", step.knob))
            case Do.YIELD:
                outcome.yielded[step.knob] = step.previous
                self._release(step.knob, step.previous)

    def _write(self, step: KnobStep, outcome: Outcome) -> None:
        try:
            self.driver.write(step.knob, step.text)
            now = self.driver.read(step.knob)
        except NotFound:
            outcome.errors[step.knob] = "not_found"
            self._record(record("release", step.knob))
            return
        except Misconfigured as error:
            outcome.errors[step.knob] = error.code
            present = self.read_all([step.knob]).get(step.knob)
            if present is not None and present != step.previous:  # a text that did not land must not hide one that did
                self._record(record("write", step.knob, present))
            return
        outcome.done += 1
        if step.do is Do.RESTORE:
            if now == step.previous:
                self._release(step.knob, step.previous)
        elif now != step.text:  # the kernel rounds some values: the rounded text is the agent's, too
            self._record(record("write", step.knob, now))

    def _release(self, knob: Knob, previous: str) -> None:
        self._record(record("release", knob))
        self._settled[knob] = previous
        if len(self._settled) > _SETTLED_KEPT:
            self._settled = {knob: text for knob, text in self._settled.items() if self._text_now(knob) is not None}

    def _compact(self) -> None:
        if self._behind or self._appended > _COMPACT_ABOVE + 4 * len(self.journal):
            self._rewrite()
