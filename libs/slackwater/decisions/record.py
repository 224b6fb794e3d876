"""The record of one decision, with everything that is needed to explain and to replay it.

`terms` are signed and their sum equals `result`, which construction checks. `inputs` are the measurements and settings
with source and time. `replay` holds the name of the pure function and the exact JSON of its arguments; a test replays
records and compares the results.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.model.bounds import (
    Amount,
    AnyAmount,
    Count,
    CpuMilli,
    Items,
    JsonDocument,
    MachineAmount,
    Moment,
    Name,
    Text,
)

AGENT: Final = "agent"
"""The `service` of decisions that agents made while disconnected. An agent writes in the same cycle, and the effect is
not measured."""


class Input(BaseModel):
    """A measurement or setting that the decision used. `source` is an event id, a policy name or a file."""

    model_config = ConfigDict(frozen=True)

    name: Name
    value: Amount | AnyAmount | Text | None
    unit: Name
    source: Text
    observed_at: Moment | None = None


class Term(BaseModel):
    """One summand, in the unit of the result. `input` names its Input; empty means the Input of the same name."""

    model_config = ConfigDict(frozen=True)

    name: Name
    value: AnyAmount
    note: Text = ""
    input: Name = ""


class Alternative(BaseModel):
    """An option that was considered and rejected.

    `keys` are its sort keys in the order of the record. `would_release` is the most it could have released, in the unit
    of the result. `pod_uid` and `namespace` are set if the option was a pod.
    """

    model_config = ConfigDict(frozen=True)

    what: Text
    rejected_because: Text
    keys: Items[Amount] = ()
    would_release: AnyAmount | None = None
    pod_uid: Name = ""
    namespace: Name = ""


class MemoryLimit(BaseModel):
    """A pod's memory limit before and after in bytes (None = unlimited), and what that releases."""

    model_config = ConfigDict(frozen=True)

    before_bytes: MachineAmount | None
    after_bytes: MachineAmount | None
    released_bytes: AnyAmount


class CpusetChange(BaseModel):
    """A pod's CPUs before and after, as lists like `0-3` (empty: any), its memory nodes after, and how it has them.

    `holder` is dedicated, shared, reclaimed or system; `pool` is the one that a shared pod runs in.
    """

    model_config = ConfigDict(frozen=True)

    before: Text
    after: Text
    memory_nodes: Text = ""
    holder: Name
    pool: Name = ""


def _is_absent(value: object) -> bool:
    return value is None


class Action(BaseModel):
    """The effect on one pod: its CPU limit before and after in milli-cores (None = unlimited), its memory limit, or its
    eviction.

    `keys` are its sort keys in the order of the record.
    """

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
    memory: MemoryLimit | None = Field(default=None, exclude_if=_is_absent)
    """Set if the memory limit changes; the CPU limit stays, and `released_milli` is 0."""
    cpuset: CpusetChange | None = Field(default=None, exclude_if=_is_absent)
    """Set if the CPUs change that it may run on; its limits stay, and `released_milli` is 0."""


class Replay(BaseModel):
    """How to replay the decision: `function` is `module:name`, `arguments` its keyword arguments as JSON."""

    model_config = ConfigDict(frozen=True)

    function: Name
    arguments: JsonDocument

    def sharing(self, shared: Mapping[str, Any]) -> Self:
        """Returns the replay with further arguments, which many records repeat: they were checked once, and are not
        checked for each of them."""
        return self.model_copy(update={"arguments": {**self.arguments, **shared}})


class StepSummary(BaseModel):
    """A decision beyond the node's budget of records: carried out, without a record of its own. `pods`: how many."""

    model_config = ConfigDict(frozen=True)

    id: Name
    kind: DecisionKind
    reason: Reason
    decided_at: Moment
    result: AnyAmount
    unit: Name
    pods: Count


class DecisionRecord(BaseModel):
    """One decision. `subject` is the resource decided on: `batch-cpu`, `batch-memory`, `cpu`.

    `trigger_event_id` is the event that triggered the decision. `remaining` is the part of a gap that could not be
    closed, `remaining_because` the reason. Throttle, restore and evict records carry one Action per affected pod;
    `order` names the sort keys of the actions, most significant first.
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
    """The trace that contains the decision, its cause and its effects (32 hex digits); None without tracing."""
    episode: Name = Field(default="", exclude_if=operator.not_)
    """The first decision of the episode: from the first throttle of a node to the restore of its last limit."""
    step: Count = Field(default=0, exclude_if=operator.not_)
    """Its number within the episode, from 1; steps between two records are in `listed`."""
    compact: bool = Field(default=False, exclude_if=operator.not_)
    """Beyond the node's budget of records: without replay arguments and alternatives, so that it cannot be replayed."""
    listed: Items[StepSummary] = Field(default=(), exclude_if=operator.not_)
    """Earlier decisions that have no record of their own, because the node's budget was used up."""
    listed_beyond: Count = Field(default=0, exclude_if=operator.not_)
    """The number of further such decisions."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total = sum(term.value for term in self.terms)
        if total != self.result:
            raise ValueError(f"terms add up to {total}, but result is {self.result} {self.unit}")
        return self
