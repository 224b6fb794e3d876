"""Suites of koord_descheduler.json on what surrounds a move: capacity, the reservation, what a failed write leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import httpx2
from tests.support.clock import EPOCH
from tests.support.kinds import no_checks
from tests.support.reports import described, pod_usage, report
from tests.support.scene import Scene
from tests.support.windows import window_of
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.cluster.fold import ClusterFold
from slackwater.descheduler.domain.cluster_placement import placement_of
from slackwater.descheduler.service import build
from slackwater.descheduler.settings import DeschedulerSettings
from slackwater.descheduling.placement import PlacementNode
from slackwater.descheduling.profile import ProfileScope
from slackwater.events.envelope import event_of
from slackwater.events.move_proposed import MoveProposed
from slackwater.events.node_described import NodeDescribed
from slackwater.migration.domain.reservation_round import reservation_for
from slackwater.migration.domain.stored_jobs import MovedPod, StoredJob
from slackwater.model.errors import Unavailable
from slackwater.model.placement_rules import LabelOperator, LabelRequirement, PlacementRules
from slackwater.model.quantities import parse_cpu_milli, parse_memory_bytes
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob
from slackwater.reservations.placement import NodeRoom, RoomFilter, refusal
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings

RAW = "annotation node.koordinator.sh/raw-allocatable"
_POOL = {"name": "all", "lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 60}}
_PROFILE = {
    "kind": "DeschedulerProfile",
    "metadata": {"name": "p"},
    "spec": {"intervalSeconds": 10, "lowNodeLoad": {"nodePools": [_POOL], "anomalyCondition": None}},
}


def _parsed(amounts: Mapping[str, str]) -> dict[str, int]:
    parse = {"cpu": parse_cpu_milli, "memory": parse_memory_bytes}
    return {name: parse[name](text) for name, text in amounts.items()}


def raw_allocatable(case: Case) -> Verdict:
    """The node is described as an agent does, and read as a profile reads it."""
    given, own = case["in"], _parsed(case["in"]["allocatable"])
    plain = described("n", EPOCH, own["cpu"], own["memory"])
    annotations = {} if given[RAW] is None else {RAW.removeprefix("annotation "): given[RAW]}
    fold = ClusterFold()
    data: NodeDescribed = plain.model_copy(update={"facts": replace(plain.facts, annotations=annotations)})
    fold.apply(event_of(data, source="tests", time=EPOCH))
    (node,) = placement_of(fold.view(EPOCH), ProfileScope()).nodes
    want = _parsed(wanted(case))
    return compare({name: node.allocatable[name] for name in want}, want)


def reservation_template(case: Case) -> Verdict:
    """A term of the peer avoids the pod's node by its name; here the reservation does, beside all terms."""
    given, want = case["in"], wanted(case)
    if given.get("volumes") or (isinstance(want, Mapping) and "volumes" in want):
        return differ("unread-rules-stay")  # no reservation is made for a pod with claims: it is not moved
    terms = given.get("affinity_terms") or []
    if any(term.get("match_fields") for term in terms):
        return not_covered("terms by fields of a node: a pod that has them is not proposed (unread rules)")
    affinity = tuple(
        tuple(LabelRequirement(key, LabelOperator(op), tuple(values)) for key, op, values in term["match_expressions"])
        for term in terms
    )
    pod = MovedPod("uid", "pod", "ns", "ns/ReplicaSet/w", requests={"cpu": 1}, rules=PlacementRules(affinity=affinity))
    stored = StoredJob(MigrationJob("job", "uid", given["node"], 0.0), JobRequest("job"), pod)
    made = reservation_for(stored, 0.0)
    reservation = made.reservation
    room = NodeRoom(PlacementNode(given["node"], {}), {}, {})
    avoided = [["metadata.name", "NotIn", sorted(reservation.avoids)]]
    got = {
        "terms": [_term(term, avoided) for term in reservation.template.affinity or [()]],
        "allocate_once": reservation.allocate_once,
        "owner": "controller" if reservation.owners[0].workload == pod.workload else "pod",
        "created_by": "koord-descheduler" if made.job == stored.name else "",
    }
    if refusal(reservation, room) is not RoomFilter.OTHER_NODE:
        return Verdict("FAIL", f"{given['node']} is not avoided")
    return compare({name: got[name] for name in want}, want)


def _term(term: Sequence[LabelRequirement], avoided: list[list[Any]]) -> dict[str, Any]:
    expressions = [[each.key, each.operator.value, list(each.values)] for each in term]
    return {**({"match_expressions": expressions} if expressions else {}), "match_fields": avoided}


def evict_entry(case: Case) -> Verdict:
    """The peer creates a job per pod; a cycle here writes all its proposals at once, so the write of a cycle fails."""
    given = case["in"]
    if set(given) != {"create_error"}:
        return not_covered(f"no call per pod that creates a job and answers: {', '.join(sorted(given))}")
    return compare({"ok": asyncio.run(_proposes(is_away=given["create_error"]))}, wanted(case))


async def _proposes(*, is_away: bool) -> bool:
    """Whether a cycle over a hot node and an idle one proposes a move, with a database that is away or answers."""
    scene = Scene()
    async with scene.running(build, DeschedulerSettings()) as service:
        await scene.advance(1.0)
        app = build_app(service.routers(), no_checks, HttpSettings.local())
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            (await client.put("/v1/deschedulerprofiles/p", json=_PROFILE)).raise_for_status()
        for name in ("hot", "idle"):
            await scene.bus.publish(event_of(described(name, scene.clock.now()), source="tests", time=EPOCH))
        await _report(scene, scene.clock.now())
        database = scene.database(service.name)
        database.away = is_away
        with suppress(Unavailable):
            await service.cycles()
        database.away = False
        await scene.settle()
        return any(isinstance(event.data, MoveProposed) for event in scene.bus.published)


async def _report(scene: Scene, now: datetime) -> None:
    pods = tuple(pod_usage(f"p{number}", cpu_milli=900) for number in range(4))
    for name, running in (("hot", pods), ("idle", ())):
        sent = report(name, 1, now, cpu_milli=900 * len(running), pods=running)
        await scene.bus.publish(event_of(sent, source="tests", time=now))
        await scene.bus.publish(event_of(window_of(sent), source="tests", time=now))
    await scene.settle()


ADAPTORS: Mapping[str, Adaptor] = {
    "raw_allocatable": raw_allocatable,
    "reservation_template": reservation_template,
    "evict_entry": evict_entry,
}
