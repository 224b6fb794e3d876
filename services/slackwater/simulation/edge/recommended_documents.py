"""The documents that put an assessment's recommendation in force; they apply as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from slackwater.runtime.yaml_files import yaml_value
from slackwater.simulation.adapters.trace_history import USUAL_MODEL
from slackwater.simulation.usecases.assess import Assessment
from slackwater.traces.options import TraceResource

API_VERSION = "slackwater.io/v1alpha1"
CLUSTER = "default"
_FIELDS = {
    TraceResource.CPU: "cpuReclaimThresholdPercent",
    TraceResource.MEMORY: "memoryReclaimThresholdPercent",
}


def documents_of(found: Assessment, pool: str | None) -> Sequence[dict[str, Any]]:
    """Returns a ColocationStrategy, and a PredictPolicy if another model than the default is recommended.

    They are for `pool`, or (None) for the whole cluster. A resource without a recommendation is offered 0; one that was
    not assessed keeps its default. Empty if nothing is recommended.
    """
    advices = {resource: one.advice for resource, one in found.resources.items()}
    if not any(advices.values()):
        return []
    metadata, of_pool = {"name": pool or CLUSTER}, {"nodePool": pool} if pool else {}
    percents = {_FIELDS[resource]: advice.choice.percent if advice else 0 for resource, advice in advices.items()}
    strategy = _document("ColocationStrategy", metadata, {**of_pool, "enable": True, **percents})
    models = {
        resource.value: _model(advice.choice.model)
        for resource, advice in advices.items()
        if advice is not None and advice.choice.model != USUAL_MODEL
    }
    return [strategy, _document("PredictPolicy", metadata, {**of_pool, "models": models})] if models else [strategy]


def text_of(documents: Sequence[dict[str, Any]]) -> str:
    """Returns the documents as YAML, ready for `slackwater apply -f -`."""
    return yaml.safe_dump_all(documents, sort_keys=False) if documents else ""


def _document(kind: str, metadata: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": dict(metadata), "spec": spec}


def _model(label: str) -> dict[str, Any]:
    """Returns name and settings of a label `name:setting=value:…`."""
    name, *given = label.split(":")
    pairs = (setting.partition("=") for setting in given)
    settings = {key: yaml_value(value.encode(), label) for key, _, value in pairs}
    return {"name": name, "settings": settings} if settings else {"name": name}
