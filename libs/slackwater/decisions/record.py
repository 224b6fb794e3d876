"""One decision, explained and repeatable.

`terms` are signed and add up: the sum of their values equals `result` (checked on construction), so a person can
redo the sum by hand. `inputs` are the measurements with source and time. `replay` holds the name of the pure
function and the exact JSON of its arguments: calling it again must give the same result, and a test does so.
"""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.model.bounds import Amount, AnyAmount, CpuMilli, Items, JsonDocument, Moment, Name, Text


class Input(BaseModel):
    """A measurement or setting that the decision used; `source` is an event id, a policy name or a file."""

    model_config = ConfigDict(frozen=True)

    name: Name
    value: Amount | AnyAmount | Text | None
    unit: Name
    source: Text
    observed_at: Moment | None = None


class Term(BaseModel):
    """One summand, in the unit of the result. `input` names the Input it stands on; empty: the one of its own name."""

    model_config = ConfigDict(frozen=True)

    name: Name
    value: AnyAmount
    note: Text = ""
    input: Name = ""


class Alternative(BaseModel):
    """What was considered and not done, and why. `keys` are its place in the order of the record, `would_release` what
    it could have released at most, in the unit of the result; both where there are any. `pod_uid` and `namespace` where
    it is a pod that was spared."""

    model_config = ConfigDict(frozen=True)

    what: Text
    rejected_because: Text
    keys: Items[Amount] = ()
    would_release: AnyAmount | None = None
    pod_uid: Name = ""
    namespace: Name = ""


class Action(BaseModel):
    """What follows for one pod: its limit before and after (None = unlimited), in milli-cores, or its eviction. `keys`
    are its place in the order of the record."""

    model_config = ConfigDict(frozen=True)

    pod_uid: Name
    pod_name: Name
    tier: Name
    cpu_limit_before_milli: CpuMilli | None
    cpu_limit_after_milli: CpuMilli | None
    released_milli: AnyAmount
    evicted: bool = False
    keys: Items[Amount] = ()
    namespace: Name = ""


class Replay(BaseModel):
    """How to repeat the decision: `function` is `module:name`, `arguments` its keyword arguments as JSON."""

    model_config = ConfigDict(frozen=True)

    function: Name
    arguments: JsonDocument


class DecisionRecord(BaseModel):
    """See the module's docstring. `subject` is what was decided about: `batch-cpu`, `batch-memory`, `cpu`.

    `trigger_event_id` is the event that led to the decision; `remaining` what could not be closed of a gap and
    `remaining_because` why. Throttle, restore and evict records carry one Action per pod touched; `order` names what
    their keys compare, the first that decides counts.
    """

    model_config = ConfigDict(frozen=True)

    id: Name
    kind: DecisionKind
    node: Name
    subject: Name
    service: Name
    rule: Name
    mode: Mode | None = None
    reason: Reason
    decided_at: Moment
    trigger_event_id: Name | None
    inputs: Items[Input]
    terms: Items[Term]
    result: AnyAmount
    unit: Name
    alternatives: Items[Alternative] = ()
    actions: Items[Action] = ()
    remaining: AnyAmount = 0
    remaining_because: Text = ""
    order: Text = ""
    replay: Replay
    trace_id: Name | None = None
    """The trace that led here and goes on with what follows (32 hex digits); None where nothing was measured."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total = sum(term.value for term in self.terms)
        if total != self.result:
            raise ValueError(f"terms add up to {total}, but result is {self.result} {self.unit}")
        return self
