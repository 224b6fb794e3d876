"""A metric of a separately installed package, in the running use cases: applied, stored, read again, worked off."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from guard_documents import DocumentScene

from slackwater.model.errors import InvalidInput
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.waterline.policies.rules import NodeQosRules

MODULE = """
from decimal import Decimal

from slackwater.model.tiers import QoSClass
from slackwater.waterline.facts.node import MetricSeries
from slackwater.waterline.ordering.chains import GENERAL
from slackwater.waterline.registry.metric import Dimension, Metric


def crowd(view):
    return (MetricSeries(sum(pod.qos is QoSClass.BE for pod in view.pods)),)


pods = Metric("batch_pods", Dimension.NUMBER, readings=crowd, sort=GENERAL, evictable=True,
              evict=lambda pod: Decimal(1), evict_quantified=True)
"""
RULE = {"name": "crowded", "metricRule": {"name": "batch_pods", "value": 2}, "actionName": "evict"}
CROWD = {"b1": 30, "b2": 20, "b3": 10}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip leaves of a wheel."""
    (folder / "crowd_metric.py").write_text(MODULE)
    metadata = folder / "crowd_metric-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: crowd-metric\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[slackwater.metrics]\nbatch_pods = crowd_metric:pods\n")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()


async def test_a_rule_on_it_is_stored_survives_a_restart_and_evicts_exactly_as_far_as_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    wanted = NodeQosRules.model_validate({"metadata": {"name": "evicting"}, "spec": {"rules": [RULE]}})
    await scene.changes[NODE_QOS].put(wanted)
    assert (await scene.changes[NODE_QOS].read("evicting")).spec == wanted.spec
    scene.start()
    await scene.cache.load()
    await scene.report(0.0, batch=CROWD)
    assert [item.pod_uid for item in scene.intents()[-1].evictions] == ["b1", "b2"], "1 too many, and 10 % more"
    assert scene.records()[-1].rule == "crowded"


async def test_once_it_is_uninstalled_its_rules_rest_and_those_beside_them_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = DocumentScene()
    with monkeypatch.context() as installed:
        install(tmp_path, installed)
        await scene.open()
        await scene.allow_evictions()
        pressed = RULE | {"name": "pressed", "metricRule": {"name": "prod_cpu_pressure", "value": 0.1}}
        spec = {"metadata": {"name": "evicting"}, "spec": {"rules": [RULE, pressed]}}
        await scene.changes[NODE_QOS].put(NodeQosRules.model_validate(spec))
    scene.start()
    await scene.cache.load()
    await scene.report(0.0, batch=CROWD)
    assert scene.records() == []
    await scene.report(0.2, batch={"b1": 300, "b2": 200})
    assert [item.pod_uid for item in scene.intents()[-1].evictions] == ["b1"]
    with pytest.raises(InvalidInput, match="'batch_pods' is not a metric"):
        NodeQosRules.parse(spec)


async def test_one_that_raises_stops_neither_its_node_nor_the_reports_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    (tmp_path / "crowd_metric.py").write_text(
        MODULE.replace("    return (", "    raise OSError(view.node)\n    return (")
    )
    monkeypatch.delitem(sys.modules, "crowd_metric", raising=False)
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    wanted = NodeQosRules.model_validate({"metadata": {"name": "crowded"}, "spec": {"rules": [RULE]}})
    await scene.changes[NODE_QOS].put(wanted)
    await scene.report(0.2, batch={"b1": 300, "b2": 200})
    assert [item.pod_uid for item in scene.intents()[-1].evictions] == ["b1"], "for prod's pressure"
    told = {one.what: one.rejected_because for one in scene.records()[-1].alternatives}
    assert told["crowded.crowded"] == "batch_pods cannot be read: OSError: n1"
