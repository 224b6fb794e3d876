"""Every metric of every service, as /metrics of `slackwater up` shows them."""

from __future__ import annotations

import re

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.metrics_core import Metric

from slackwater.cli.unasked import unasked_services
from slackwater.telemetry.metrics import BOUNDED_LABELS, note_build

UNITS = ("seconds", "bytes", "cores", "ratio", "info", "pods", "nodes", "series")
"""Base units, and what is counted where a gauge counts things."""
FOREIGN = ("python_", "process_")


def complaints(registry: CollectorRegistry) -> list[str]:
    """What is not as the design wants it, one line each."""
    found = []
    for metric in registry.collect():
        if not metric.name.startswith(FOREIGN):
            found += [f"{metric.name}: {why}" for why in wrong_with(metric)]
    return found


def wrong_with(metric: Metric) -> list[str]:
    words = metric.name.split("_")
    labels = {label for sample in metric.samples for label in sample.labels} - {"le"}
    wrong = {
        "name": not re.fullmatch(r"slackwater(_[a-z0-9]+){2,}", metric.name),
        "unit": metric.type in {"gauge", "histogram", "summary"} and words[-1] not in UNITS,
        "labels": not labels <= BOUNDED_LABELS,
        "text": not re.fullmatch(r"[A-Z].*\.", metric.documentation),
    }
    return [why for why, is_so in wrong.items() if is_so]


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Every service, built as `up` does, on servers that are never asked."""
    for service in unasked_services():
        note_build(service.name)


def test_every_metric_is_named_and_explained_as_promised() -> None:
    assert complaints(REGISTRY) == []


def test_the_services_metrics_are_on_the_page() -> None:
    page = generate_latest(REGISTRY).decode()
    for name in (
        "slackwater_build_info",
        "slackwater_ingestion_reports_accepted_total",
        "slackwater_ingestion_reports_refused_total",
        "slackwater_prediction_windows_folded_total",
        "slackwater_offered_batch_cpu_cores",
        "slackwater_ensurance_decisions_total",
    ):
        assert f"# TYPE {name} " in page
    assert "_created" not in page


def test_a_metric_named_otherwise_is_found() -> None:
    registry = CollectorRegistry()
    Gauge("slackwater_queue_depth_millis", "Depth.", registry=registry)
    Gauge("queue_seconds", "Depth.", registry=registry)
    Gauge("slackwater_wait_seconds", "depth", registry=registry)
    Counter("slackwater_pods_seen_total", "Seen.", ["pod"], registry=registry).labels("a").inc()
    assert complaints(registry) == [
        "slackwater_queue_depth_millis: unit",
        "queue_seconds: name",
        "slackwater_wait_seconds: text",
        "slackwater_pods_seen: labels",
    ]
