"""Every metric of every process: its name, its explanation, and its place on the reference page, in both directions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from slackwater.cli.offline_services import every_metric
from slackwater.telemetry.metrics import REGISTRY, Meters, MetricDescription, Summed

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
UNITS = frozenset(
    {
        *("seconds", "bytes", "cores", "ratio", "info", "up"),
        *(
            "pods",
            "rights",
            "workloads",
            "nodes",
            "series",
            "events",
            "messages",
            "connections",
            "partitions",
            "members",
            "calls",
            "policies",
            "resources",
            "pools",
            "rows",
            "objects",
            "claims",
            "evictions",
            "jobs",
            "reservations",
        ),
    }
)
"""Base units, and what is counted where a gauge counts things."""


def complaints(metrics: Sequence[MetricDescription]) -> list[str]:
    """What is not as the design wants it, one line each."""
    return [f"{metric.name}: {why}" for metric in metrics for why in wrong_with(metric)]


def wrong_with(metric: MetricDescription) -> list[str]:
    words = metric.name.split("_")
    wrong = {
        "name": not re.fullmatch(r"slackwater(_[a-z0-9]+){2,}", metric.name),
        "unit": metric.kind != "counter" and words[-1] not in UNITS,
        "text": not re.fullmatch(r"[A-Z0-9].*\.", metric.text),
        "look": not re.fullmatch(r".{5,}[.]", metric.look),
        "table": "|" in metric.text + metric.look,
    }
    return [why for why, is_so in wrong.items() if is_so]


def rows() -> dict[str, str]:
    """Kind and labels by name, from the reference page as it stands in the tree."""
    return dict(re.findall(r"^- `(slackwater_\w+)`(?: \(([^)]*)\))?: .*\.\*$", PAGE.read_text(), re.MULTILINE))


def test_every_metric_is_named_and_explained_as_promised() -> None:
    assert complaints(every_metric()) == []


def test_the_page_has_every_metric_and_no_other() -> None:
    known = {metric.name: metric for metric in every_metric()}
    page = rows()
    assert page.keys() == known.keys()
    for name, metric in known.items():
        assert name.endswith("_total") is (metric.kind == "counter")
        kind = "" if metric.kind == "counter" else metric.kind
        assert page[name] == "; ".join(filter(None, (kind, ", ".join(metric.labels))))


def test_nothing_reaches_the_registry_past_the_page() -> None:
    """A metric made with prometheus_client alone would be shown and not explained."""
    every_metric()
    shown = set(re.findall(r"^# TYPE (slackwater_\w+) ", generate_latest(REGISTRY).decode(), re.MULTILINE))
    assert shown <= rows().keys() | {"slackwater_reports_total"}
    assert "_created" not in generate_latest(REGISTRY).decode()


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        (MetricDescription("slackwater_queue_depth_millis", "gauge", (), "Depth.", "Much of it."), "unit"),
        (MetricDescription("queue_seconds", "gauge", (), "Depth.", "Much of it."), "name"),
        (MetricDescription("slackwater_wait_seconds", "gauge", (), "depth", "Much of it."), "text"),
        (MetricDescription("slackwater_wait_seconds", "gauge", (), "Depth.", ""), "look"),
    ],
)
def test_a_metric_named_or_explained_otherwise_is_found(metric: MetricDescription, found: str) -> None:
    assert complaints([metric]) == [f"{metric.name}: {found}"]


def test_a_sum_follows_its_parts_without_a_label_for_each() -> None:
    registry = CollectorRegistry()
    pods = Summed(Meters(registry).gauge("slackwater_throttled_pods", "Pods."))
    for node, value in (("a", 2), ("b", 3), ("a", 1)):
        pods.set(node, value)
    assert registry.get_sample_value("slackwater_throttled_pods") == 4
    assert pods.keys == 2
    pods.set("a", 0)
    pods.set("b", 0)
    assert (registry.get_sample_value("slackwater_throttled_pods"), pods.keys) == (0, 0)
