"""Metrics of other distributions: entry points of the group `slackwater.metrics`, each naming one
Metric.
"""

from __future__ import annotations

from typing import Final

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.plugins import entry_points
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Metric, Metrics
from slackwater.waterline.registry.plugin_sandbox import Tell, sandboxed

GROUP: Final = "slackwater.metrics"


def all_metrics(tell: Tell = lambda metric, part, why: None) -> Metrics:
    """Returns built-in and installed metrics; failures of installed ones are contained and reported
    to `tell`. Raises Misconfigured that names an unusable entry point.
    """
    found = BUILT_IN
    for entry in sorted(entry_points(GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            metric = entry.load()
        except Exception as error:
            raise Misconfigured(
                f"metric {entry.name}: entry point {entry.value} cannot be loaded: {type(error).__name__}: {error}; "
                "mend or uninstall it",
                code="metric_unusable",
            ) from error
        if not isinstance(metric, Metric) or metric.name != entry.name:
            raise Misconfigured(
                f"metric {entry.name}: entry point {entry.value} must name a Metric of that name",
                code="metric_unusable",
            )
        try:
            found = found.with_metrics(sandboxed(metric, tell))
        except InvalidInput as error:
            raise Misconfigured(
                f"metric {entry.name}: the name is taken; rename it or uninstall one of them", code="metric_twice"
            ) from error
    return found
