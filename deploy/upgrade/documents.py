"""Documents of each kind, changed over REST by replicas of both versions, and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.faults.site import Site
from tests.faults.supervisor import until


class Failed(Exception):
    """The rehearsal did not reach its end; the message says why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A document that is changed. `edit` gives it another content for each turn."""

    service: str
    kind: str
    path: str
    edit: Callable[[dict[str, Any], int], None]
    spec: Mapping[str, Any] = field(default_factory=dict)

    def skeleton(self) -> dict[str, Any]:
        metadata, spec = {"name": self.path.rsplit("/", 1)[1]}, deepcopy(dict(self.spec))
        return {"apiVersion": "slackwater.io/v1alpha1", "kind": self.kind, "metadata": metadata, "spec": spec}


def setting(name: str, value: Callable[[int], Any]) -> Callable[[dict[str, Any], int], None]:
    """Returns an edit that sets one field of the spec to the value of the turn."""
    return lambda spec, turn: spec.update({name: value(turn)})


def edit_rule(spec: dict[str, Any], turn: int) -> None:
    """Set the waterline of the first rule."""
    spec["rules"][0]["metricRule"]["value"] = 0.1 + 0.001 * turn


RULE = {"name": "cpu", "metricRule": {"name": "node_cpu_usage_ratio", "value": 0.1}, "actionName": "throttle"}
ONE_LABEL = {"matchLabels": {"disk": "ssd"}}
BE_PODS = {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]}
OF_OTHER_SERVICES = frozenset(
    {
        *("ClusterColocationProfile", "ElasticQuota", "QuotaProfile", "DeschedulerProfile"),
        *("PodMigrationJob", "Reservation", "ArbitrationArgs"),
    }
)
"""Kinds of services that the rehearsal does not start."""
SAMPLES = (
    Sample("prediction", "PredictPolicy", "predictpolicies/gold", setting("violationRate", lambda n: 0.01 + n / 1000)),
    Sample("colocation", "ColocationStrategy", "colocationstrategies/web",
           setting("cpuReclaimThresholdPercent", lambda n: 50 + n), {"nodeSelector": ONE_LABEL}),
    Sample("ensurance", "NodeQOS", "nodeqos/default", edit_rule),
    Sample("ensurance", "NodeQOS", "nodeqos/gold", edit_rule, {"selector": ONE_LABEL, "rules": [RULE]}),
    Sample("ensurance", "AvoidanceAction", "avoidanceactions/gold", setting("coolDownSeconds", lambda n: 60.0 + n)),
    Sample("ensurance", "PodQOS", "podqos/gold",
           setting("labelSelector", lambda n: {"matchLabels": {"turn": str(n)}}), {"scopeSelector": BE_PODS}),
    Sample("ensurance", "Autonomy", "autonomies/gold",
           setting("evictionsPerHour", lambda n: 20 + n), {"mode": "evict"}),
)  # fmt: skip


class Documents:
    """Changes documents over REST, and compares what replicas answer with what was acknowledged last."""

    def __init__(self, here: Site, note: Callable[[str], None]) -> None:
        self._here = here
        self._note = note
        self.changes = 0
        self._last: dict[str, dict[str, Any]] = {}

    async def change(self, service: str, replicas: Sequence[str]) -> None:
        """Change each document of a service by each replica; every replica must then answer the new generation."""
        for sample in (sample for sample in SAMPLES if sample.service == service):
            for replica in replicas:
                await self._put(sample, replica)
                await self.compare(service, replicas)

    async def compare(self, service: str, replicas: Sequence[str]) -> None:
        """Note each replica whose answer stays other than the last acknowledged document."""
        for sample in (sample for sample in SAMPLES if sample.service == service and sample.path in self._last):
            for replica in replicas:
                last: list[dict[str, Any]] = []

                async def same(sample: Sample = sample, replica: str = replica, last: list[Any] = last) -> bool:
                    last[:] = [content(await self._get(sample, replica) or {})]
                    return bool(last[0] == self._last[sample.path])

                try:
                    await until(same, 10, "the replica answers the document")
                except TimeoutError:
                    wanted = self._last[sample.path]
                    self._note(f"{replica} {sample.path}: {last[0]} instead of {wanted}")

    async def _put(self, sample: Sample, replica: str) -> None:
        document = await self._get(sample, replica) or sample.skeleton()
        self.changes += 1
        sample.edit(document["spec"], self.changes % 40)
        before = document["metadata"].get("generation", 0)
        answer = await self._here.http.put(self._here.url(replica, f"/v1/{sample.path}"), json=document)
        if answer.status_code not in (200, 201):
            raise Failed(f"{replica} refuses {sample.path}: {answer.status_code} {answer.text[:400]}")
        self._last[sample.path] = content(answer.json())
        if before and self._last[sample.path]["generation"] != before + 1:
            self._note(f"{replica} {sample.path}: {before} was not followed by the next generation")

    async def _get(self, sample: Sample, replica: str) -> dict[str, Any] | None:
        answer = await self._here.http.get(self._here.url(replica, f"/v1/{sample.path}"))
        document: dict[str, Any] | None = answer.json() if answer.status_code == 200 else None
        return document


def content(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what must be the same in every answer: generation and spec. An omitted field equals null."""
    return {"generation": document.get("metadata", {}).get("generation"), "spec": without_nulls(document.get("spec"))}


def without_nulls(value: Any) -> Any:
    """Returns a JSON value without the members that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
