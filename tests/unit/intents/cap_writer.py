"""A writer of CPU limits beside the drain writer: it gives up a limit that the agent could not set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from slackwater.events.envelope import Event
from slackwater.events.intent_declared import CpuThrottle
from slackwater.events.intent_observed import IntentObserved
from slackwater.intents.answers import ObservedAnswer
from slackwater.intents.controls import ControlField, Writer
from slackwater.intents.document import Content
from slackwater.intents.keyed_store import state_table
from slackwater.intents.node_cache import NodeCache
from slackwater.intents.ports import IntentUnit
from slackwater.intents.writer import IntentWriter

CAP: Final = Writer("cap", frozenset({ControlField.THROTTLES}))


@dataclass(frozen=True, slots=True)
class Capped:
    """One node. `observed` is the generation that its agent carried out last."""

    node: str
    version: int = 0
    generation: int = 0
    limits: tuple[tuple[str, int], ...] = ()
    observed: int = 0

    def with_limits(self, limits: dict[str, int]) -> Capped:
        wanted = tuple(sorted(limits.items()))
        return self if wanted == self.limits else replace(self, generation=self.generation + 1, limits=wanted)


CAPPED: Final = state_table("capped_nodes", Capped)
CapNodes = NodeCache[Capped, IntentUnit[Capped]]
CapIntents = IntentWriter[Capped, IntentUnit[Capped]]


def content_of(state: Capped, _: datetime) -> Content:
    throttles = (CpuThrottle(pod_uid=uid, cpu_limit_milli=milli, decision_id="d") for uid, milli in state.limits)
    return Content(throttles=tuple(throttles))


def observed(state: Capped, answer: ObservedAnswer, _: datetime) -> Capped:
    if not answer.is_current(state.generation):
        return state
    failed = {uid for uid, _ in answer.failures}
    left = state.with_limits({uid: milli for uid, milli in state.limits if uid not in failed})
    return replace(left, observed=answer.generation)


class Cap:
    """Limits pods of a node."""

    def __init__(self, intents: CapIntents) -> None:
        self._intents = intents

    async def limit(self, node: str, uid: str, milli: int) -> None:
        await self._intents.change(node, lambda state, _: state.with_limits({**dict(state.limits), uid: milli}))

    async def observe(self, event: Event[IntentObserved]) -> None:
        await self._intents.observe(event, observed)
