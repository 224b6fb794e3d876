"""The steps from present to desired texts: level-triggered, idempotent, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from slackwater.agent.domain.journal import Journal
from slackwater.agent.domain.knobs import Knob


class Do(Enum):
    """What to do with one knob. RELEASE and FORGET write nothing."""

    WRITE = "write"
    RESTORE = "restore"
    RELEASE = "release"
    FORGET = "forget"
    YIELD = "yield"


@dataclass(frozen=True, slots=True)
class KnobStep:
    """`text` is what to write (WRITE, RESTORE) or what was found (YIELD); `previous` what was there before us.

    WRITE with `claim` set is the first write of a knob. FORGET: the file is gone. YIELD: a foreign writer has it.
    """

    do: Do
    knob: Knob
    text: str = ""
    previous: str = ""
    claim: bool = False


def plan(
    desired: Mapping[Knob, str | None],
    present: Mapping[Knob, str | None],
    journal: Journal,
    foreign: Mapping[Knob, str],
) -> Sequence[KnobStep]:
    """Steps that lead from present to desired texts (None = as before us). Empty once they agree.

    `present` is None for a knob that is gone; `foreign` holds the knobs left to a foreign writer with the text from
    before us: when that text is back, the knob is ours to write again. Writes come first, in the given order; the
    others follow in reverse, as at the end of a run.
    """
    steps = (_step(knob, wanted, present.get(knob), journal, foreign) for knob, wanted in desired.items())
    found = [step for step in steps if step is not None]
    writes = [step for step in found if step.do is Do.WRITE]
    return [*writes, *reversed([step for step in found if step.do is not Do.WRITE])]


def _step(
    knob: Knob, desired: str | None, present: str | None, journal: Journal, foreign: Mapping[Knob, str]
) -> KnobStep | None:
    claim = journal.claim_of(knob)
    if present is None:
        return KnobStep(Do.FORGET, knob) if claim is not None else None
    if claim is not None and not claim.ours(present):
        return KnobStep(Do.YIELD, knob, present, claim.previous)
    if knob in foreign and present != foreign[knob]:
        return None
    if desired is None or (claim is not None and desired == claim.previous):
        if claim is None:
            return None
        done = present == claim.previous
        return KnobStep(Do.RELEASE if done else Do.RESTORE, knob, claim.previous, claim.previous)
    if present == desired:
        return None
    return KnobStep(Do.WRITE, knob, desired, claim.previous if claim else present, claim=claim is None)
