"""All controls, one after the other: what the writers request becomes texts of knobs, and the actuator writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.agent.domain import convergence
from slackwater.agent.domain.controls.catalog import CONTROLS
from slackwater.agent.domain.controls.control import Control, MachineView, lowers
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import Knob, KnobSpec, Target, Value
from slackwater.agent.ports import Driver
from slackwater.agent.usecases.actuate import Actuator, Outcome
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.pods import Pod

RECHECK_BORROWED_TICKS = 10
"""Samples between two comparisons of what is in force for borrowed resources alone."""


@dataclass(slots=True)
class ApplyControls:
    """Keeps only which knobs were left to foreign writers, and on what each control last decided."""

    driver: Driver
    actuator: Actuator
    controls: Sequence[Control[Any]] = CONTROLS
    foreign: dict[Knob, str] = field(default_factory=dict)
    """Knobs that another program has changed, with the text from before us."""
    _bases: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def apply(
        self, documents: Sequence[DesiredState], pods: Sequence[Pod], machine: MachineView, sample: int | None = None
    ) -> Outcome:
        """Make the machine what the documents request. `sample` is the number of the sample that led to this."""
        desired = self._undeclared()
        doubtful: set[Knob] = set()
        for control in self.controls:
            merged = control.merge(documents, machine)
            if self._is_due(control, merged, pods, machine, sample):
                desired.update(dict.fromkeys(self.claimed(control.knob)))
                desired.update(self._texts(control, control.desired(merged, pods, machine), doubtful))
        present = self.actuator.read_all(desired)
        desired = {knob: text for knob, text in desired.items() if knob in present and knob not in doubtful}
        theirs = self.actuator.read_all(self.foreign)
        self.foreign = {knob: text for knob, text in self.foreign.items() if theirs.get(knob, "") not in (None, text)}
        outcome = self.actuator.perform(convergence.plan(desired, present, self.actuator.journal, self.foreign))
        for knob in outcome.errors if machine.kubelet is not None else ():  # tried again at the next look
            self._bases.pop(knob.field, None)
        return outcome

    def yielded(self, outcome: Outcome) -> None:
        """Leave these knobs to their foreign writers until the text from before us is back."""
        self.foreign.update(outcome.yielded)

    def adopt(self, knobs: Iterable[Knob]) -> None:
        """Take the texts that these knobs hold for those from before us: their owner has written them anew."""
        for knob in knobs:
            self.foreign.pop(knob, None)
            self.actuator.adopt(knob)

    def claimed(self, spec: KnobSpec) -> list[Knob]:
        """The knobs of one kind that the agent has written and not given back."""
        return [knob for knob in self.actuator.journal.knobs() if knob.field == spec.name]

    def values(self, spec: KnobSpec, target: Target) -> tuple[Value, Value]:
        """The value in force and the one before us. Raises NotFound and Misconfigured as the driver does."""
        knob = self.driver.knob(spec, target)
        now = self.driver.parse(knob, self.driver.read(knob))
        return now, self._original(knob, now)

    def _undeclared(self) -> dict[Knob, str | None]:
        """Claimed knobs that no control sets any more (the journal of another version): they go back."""
        declared = {control.knob.name for control in self.controls}
        return {knob: None for knob in self.actuator.journal.knobs() if knob.field not in declared}

    def _is_due(
        self, control: Control[Any], merged: object, pods: Sequence[Pod], machine: MachineView, sample: int | None
    ) -> bool:
        """At every look, or when what it decides on has changed, or when the machine is to be compared again. What pods
        of a kubelet borrow is always in force, so a control that no writer asks for anything may wait there."""
        ticks = control.recheck_ticks
        if ticks <= 1 and (merged or machine.kubelet is None):
            self._bases.pop(control.knob.name, None)
            return True
        ticks = max(ticks, RECHECK_BORROWED_TICKS) if ticks <= 1 else ticks
        revision = 0 if machine.kubelet is None else machine.kubelet.revision
        basis = (merged, revision, machine.ending, tuple((pod.uid, pod.request) for pod in pods))
        unchanged = self._bases.get(control.knob.name) == basis
        self._bases[control.knob.name] = basis
        return not unchanged or (sample is not None and sample % ticks == 0)

    def _texts(
        self, control: Control[Any], values: Mapping[Target, Value], doubtful: set[Knob]
    ) -> dict[Knob, str | None]:
        """The desired texts. Knobs of which nothing can be read now are added to `doubtful` and stay as they are."""
        texts: dict[Knob, str | None] = {}
        for target, value in values.items():
            try:
                knob = self.driver.knob(control.knob, target)
            except NotFound:
                continue
            try:
                if (text := self._text(control, knob, value)) is not None:
                    texts[knob] = text
            except NotFound:
                continue
            except Misconfigured:
                doubtful.add(knob)
        return texts

    def _text(self, control: Control[Any], knob: Knob, value: Value) -> str | None:
        """The text of a value; None where it would not lower what was there before, though it may only lower. A
        rendered text may mean more than the value, because a kernel does not take every value."""
        if not control.lowers_only:
            return self.driver.render(knob, value)
        original = self._original_of(knob)
        if not lowers(value, original):
            return None
        text = self.driver.render(knob, value)
        return text if lowers(self.driver.parse(knob, text), original) else None

    def _original_of(self, knob: Knob) -> Value:
        return self._original(knob, self.driver.parse(knob, self.driver.read(knob)))

    def _original(self, knob: Knob, now: Value) -> Value:
        claim = self.actuator.journal.claim_of(knob)
        return now if claim is None else self.driver.parse(knob, claim.previous)
