"""A node of a cluster, where the API server evicts and reports show which pods terminate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ensurance_scene import described, reported
from guard_documents import DocumentScene

from slackwater.model.nodes import API_SERVER, EVICTIONS_BY, PodDetail
from slackwater.model.pods import PodStatus

CROWD = {"b1": 300, "b2": 250, "b3": 240, "b4": 230}
"""At 0.2 the gap is 275: each pair closes it, and b1 alone."""


class ClusterScene(DocumentScene):
    """n1 is a node of a cluster. `terminating` are the pods that its reports show so."""

    terminating: frozenset[str] = frozenset()

    async def begin(self, **autonomy: Any) -> None:
        await self.cache.load()
        event = described("n1", at=self.clock.now())
        facts = replace(event.data.facts, annotations={EVICTIONS_BY: API_SERVER}, reports=(PodDetail.READINESS,))
        await self.describe(event.model_copy(update={"data": event.data.model_copy(update={"facts": facts})}))
        await self.allow_evictions(**autonomy)

    async def sample(self, pressure: float, batch: Mapping[str, int] = CROWD, seconds: float = 1.0) -> None:
        """Some time passes, then n1 reports."""
        await self.clock.advance(seconds)
        self.sequence += 1
        event = reported(self.sequence, at=self.clock.now(), pressure=pressure, batch=dict(batch))
        leaving = PodStatus(terminating=True)
        pods = tuple(
            replace(use, pod=replace(use.pod, status=leaving)) if use.pod.uid in self.terminating else use
            for use in event.data.pods
        )
        await self.guard(event.model_copy(update={"data": event.data.model_copy(update={"pods": pods})}))

    def asked(self) -> list[str]:
        return [item.pod_uid for item in self.intents()[-1].evictions]

    def spared(self) -> dict[str, str]:
        return {one.what: one.rejected_because for one in self.records()[-1].alternatives}

    def counted(self) -> int:
        return len(self.standings["default"].state.evictions_at)
