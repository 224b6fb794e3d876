"""Every expression of the dashboard and the alert rules, parsed and held to the registry; and their structure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from slackwater.cli.offline_services import every_metric

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "deploy" / "helm" / "slackwater" / "files"
DASHBOARDS = sorted(FILES.glob("*.json"))
RULES = FILES / "rules.yaml"
GRAFANA_UNITS = {"s", "bytes", "percentunit", "cps", "none"}
OUTSIDE = {"job", "instance"}
"""Labels that Prometheus adds by itself."""


@cache
def known() -> Mapping[str, frozenset[str]]:
    """Series by name with their labels: of the registry, and of the recording rules."""
    found: dict[str, frozenset[str]] = {}
    for metric in every_metric():
        labels = frozenset(metric.labels)
        if metric.kind == "histogram":
            found[f"{metric.name}_bucket"] = labels | {"le"}
            found[f"{metric.name}_sum"] = found[f"{metric.name}_count"] = labels
        else:
            found[metric.name] = labels
    for rule in rules():
        if "record" in rule:
            found[rule["record"]] = _labels_of(promql.parse(rule["expr"])) | set(rule.get("labels", {}))
    return found


def _labels_of(node: Any) -> frozenset[str]:
    """Of the outermost grouping of what is recorded."""
    if isinstance(node, promql.Call):
        return _labels_of(node.args[-1]) - {"le"}
    return _labels_of(node.lhs) if isinstance(node, promql.BinaryExpr) else frozenset(node.modifier.labels)


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", []))]


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule.get("alert", rule.get("record")), rule["expr"]
    for file in DASHBOARDS:
        for panel in panels(json.loads(file.read_text())):
            for target in panel.get("targets", []):
                yield f"{file.name}: {panel['title']}", target["expr"]


def complaints(expression: str) -> list[str]:
    """What in an expression the registry does not have; raises ValueError if it is no PromQL."""
    text = expression.replace("$__rate_interval", "5m").replace("$pool", "any")
    return list(_wrong(promql.parse(text)))


def _wrong(node: Any) -> Iterator[str]:
    if isinstance(node, promql.VectorSelector):
        yield from _wrong_selector(node)
    if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
        yield from _wrong_grouping(node)
    if isinstance(node, promql.Call):
        yield from _wrong_call(node)
    for child in _children(node):
        yield from _wrong(child)


def _wrong_selector(node: Any) -> Iterator[str]:
    if node.name not in known():
        yield f"{node.name} is not in the registry"
        return
    named = {matcher.name for matcher in node.matchers.matchers}
    for label in sorted(named - known()[node.name] - OUTSIDE):
        yield f"{node.name} has no label {label}"


def _wrong_grouping(node: Any) -> Iterator[str]:
    for label in node.modifier.labels:
        for name in _selectors(node):
            if label not in known().get(name, {label}) | OUTSIDE:
                yield f"{name} has no label {label}"


def _wrong_call(node: Any) -> Iterator[str]:
    for name in _selectors(node):
        if node.func.name in ("rate", "increase") and not name.endswith(("_total", "_bucket", "_sum", "_count")):
            yield f"{node.func.name} of {name}, which is no counter"
        if node.func.name == "histogram_quantile" and not name.endswith("_bucket"):
            yield f"quantile of {name}, which has no buckets"


def _children(node: Any) -> Iterator[Any]:
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        child = getattr(node, name, None)
        if child is not None and not isinstance(child, str):
            yield child
    yield from getattr(node, "args", None) or ()


def _selectors(node: Any) -> set[str]:
    own = {node.name} if isinstance(node, promql.VectorSelector) else set()
    return own.union(*(_selectors(child) for child in _children(node)))


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_an_expression_asks_only_for_what_there_is(where: str, expression: str) -> None:
    assert complaints(expression) == []


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("sum(slackwater_nothing_seconds)", "slackwater_nothing_seconds is not in the registry"),
        ('slackwater_bus_lag_messages{pod="x"}', "slackwater_bus_lag_messages has no label pod"),
        ("sum by (node) (slackwater_bus_lag_messages)", "slackwater_bus_lag_messages has no label node"),
        ("rate(slackwater_bus_lag_messages[5m])", "rate of slackwater_bus_lag_messages, which is no counter"),
        ("slackwater_offer_delay_seconds", "slackwater_offer_delay_seconds is not in the registry"),
        ("histogram_quantile(0.9, slackwater_bus_up)", "quantile of slackwater_bus_up, which has no buckets"),
    ],
)
def test_an_expression_for_what_there_is_not_is_found(expression: str, found: str) -> None:
    assert found in complaints(expression)


def test_an_expression_that_is_no_promql_is_found() -> None:
    with pytest.raises(ValueError, match="parenthesis"):
        complaints("sum(rate(slackwater_bus_messages_total[5m])")


def test_every_alert_is_urgent_or_not_says_what_is_wrong_and_where_to_read_on() -> None:
    anchors = {line[3:].strip().lower() for line in _lines("docs/how-to/runbook.md") if line.startswith("## ")}
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) >= 11
    for rule in alerts:
        assert rule["labels"]["severity"] in {"critical", "warning"}, rule
        assert re.fullmatch(r"\d+[smh]", str(rule["for"])), rule
        assert rule["annotations"]["summary"].endswith("."), rule
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/how-to/runbook.md"
        assert anchor == rule["alert"].lower()
        assert anchor in anchors
    assert anchors == {rule["alert"].lower() for rule in alerts}
    shown = {label for rule in alerts for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])}
    assert shown <= {label for labels in known().values() for label in labels} | OUTSIDE


def _lines(path: str) -> list[str]:
    return (ROOT / path).read_text().splitlines()


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.name)
def test_a_dashboard_is_whole(file: Path) -> None:
    dashboard = json.loads(file.read_text())
    assert dashboard["schemaVersion"] >= 39
    assert dashboard["uid"] == file.stem
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    assert "datasource" in variables
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__rate_interval"} <= variables
    assert "://" not in file.read_text()
    every = panels(dashboard)
    assert len({panel["id"] for panel in every}) == len(every)
    for panel in every:
        position = panel["gridPos"]
        assert position["x"] + position["w"] <= 24
        if panel["type"] != "row":
            assert panel["targets"], panel["title"]
            assert panel["description"], panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"] in GRAFANA_UNITS, panel["title"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    boxes = [panel["gridPos"] for panel in every]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :] if _overlap(a, b)]


def _overlap(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    apart_x = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
    return not (apart_x or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"])
