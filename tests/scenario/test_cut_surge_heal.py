"""An agent as its own process, cut off from the broker: prod surges, the agent acts by itself; the line heals, and one
owner decides again and repeats nothing. The same holds for an agent killed and restarted while it is cut off."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cut_off_scene import BrokerEvents, agent, ensurance, events, is_free, overlapping, proxying, said, until
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.port import Bus
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.kinds.pod_qos import POD_QOS

EVICTING = {
    AVOIDANCE_ACTION: ("evict", {"eviction": {"terminationGracePeriodSeconds": 1}, "disableScheduling": False}),
    POD_QOS: (
        "default",
        {
            "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
            "allowedActions": ["evict"],
        },
    ),
    AUTONOMY: ("simulated", {"mode": "evict", "nodeEvictionsPerCycle": 1}),
    NODE_QOS: (
        "evicting",
        {"rules": [{"name": "p", "metricRule": {"name": "prod_cpu_pressure", "value": 0.05}, "actionName": "evict"}]},
    ),
}


@pytest.mark.timeout(240)
async def test_cut_surge_heal(bus: Bus, nats_url: str, fresh_database: FreshDatabase, tmp_path: Path) -> None:
    heard = BrokerEvents()
    async with (
        heard.listening(bus),
        proxying(urlsplit(nats_url).port or 4222) as line,
        ensurance(bus, fresh_database, tmp_path),
    ):
        with agent(line.url, tmp_path):
            await until(lambda: bool(heard.observed), "the node has its first intent")
            line.partition()
            cut_at = datetime.now(UTC)
            await until(lambda: said(tmp_path, "alone"), "the lease has run out")
            (tmp_path / "surge").touch()
            await until(lambda: said(tmp_path, "decided alone"), "the agent acts on the surge")
            assert heard.of("agent") == [], "nothing gets through"
            healed_at = datetime.now(UTC)
            line.heal()
            await until(lambda: bool(heard.of("agent")), "what was decided alone is told")
            await until(lambda: heard.reports[-1].sampled_at > healed_at, "the node reports again")
            first = heard.of("agent")[0].record
            assert (first.kind, first.reason) == ("throttle", "throttle_waterline_crossed")
            assert cut_at < first.decided_at
            assert first.decided_at < healed_at
            await until(lambda: bool(heard.of("ensurance")), "ensurance decides again")
            owner_since = heard.of("ensurance")[-1].record.decided_at
            (tmp_path / "surge").unlink()
            await until(lambda: is_free(heard, owner_since), "every limit went back")
    assert events(tmp_path)[-1] == "no longer alone", "one owner: the agent decides nothing any more"
    assert not overlapping(heard), "neither decides while the other one owns the node"
    triggers = [one.record.trigger_event_id for one in heard.of("ensurance") if one.record.trigger_event_id]
    assert len(triggers) == len(set(triggers))


@pytest.mark.timeout(240)
async def test_cut_kill_restart_surge_heal(
    bus: Bus, nats_url: str, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    """Started again beyond the cut it has nothing but what it kept: it evicts by the last rules, and no pod twice."""
    heard = BrokerEvents()
    async with (
        heard.listening(bus),
        proxying(urlsplit(nats_url).port or 4222) as line,
        ensurance(bus, fresh_database, tmp_path) as service,
    ):
        for kind, (name, spec) in EVICTING.items():
            await service.changes[kind].put(kind.model_of(name).parse({"metadata": {"name": name}, "spec": spec}))
        with agent(line.url, tmp_path) as process:
            await until(lambda: bool(heard.observed), "the node has its first intent")
            line.partition()
            process.kill()
            process.wait(20)
        with agent(line.url, tmp_path):
            await until(lambda: said(tmp_path, "alone"), "the agent does not notice the cut")
            (tmp_path / "surge").touch()
            await until(lambda: said(tmp_path, "decided alone"), "the agent acts on the surge")
            assert heard.ended == []
            line.heal()
            await until(lambda: said(tmp_path, "no longer alone"), "ensurance is the owner again")
            await until(lambda: bool(heard.ended), "what was ended alone is told")
            (tmp_path / "surge").unlink()
            resting = datetime.now(UTC)
            await until(lambda: (heard.reports[-1].sampled_at - resting).total_seconds() > 2, "reports at rest")
    assert events(tmp_path)[-1] == "no longer alone"
    assert not overlapping(heard)
    assert {one.writer for one in heard.ended} >= {"agent"}
    assert len({one.id for one in heard.ended}) == len(heard.ended), "each eviction is answered once"
    gone = [one.pod_uid for one in heard.ended if one.outcome in ("terminated", "killed")]
    assert len(set(gone)) == len(gone), "no pod is ended twice"
    asked = [action.pod_uid for one in heard.decisions for action in one.record.actions if action.evicted]
    assert len(set(asked)) == len(asked), "no pod is chosen twice, by either owner"
