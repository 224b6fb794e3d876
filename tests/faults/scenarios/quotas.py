"""kill -9 of quota and of PostgreSQL while many writers claim, start and release: the ledger is clean at the end."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from tests.faults.oracle import Findings
from tests.faults.scenario import Result, Strictness
from tests.faults.site import Site, harness_bus, site
from tests.faults.supervisor import until

from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.quantities import Resources

CORES = 100
QUOTAS: Mapping[str, Mapping[str, Any]] = {
    "team-a": {"min": {"cpu": 40}, "max": {"cpu": 90}},
    "team-b": {"min": {"cpu": 40}, "max": {"cpu": 90}},
    "team-c": {"min": {"cpu": 10}, "max": {"cpu": 60}},
}
HOLDING = ("admitted", "started", "reclaiming")
SETTLE_SECONDS = 90.0


@dataclass
class Claims:
    """What was acknowledged: by claim, its quota, what it asked for in milli-cores, and whether it was released."""

    asked: dict[str, tuple[str, int]] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    repeats: int = 0


async def quotas(folder: Path, strictness: Strictness, writers: int, claims: int, times: int) -> Result:
    """`writers` write until there are so many claims; quota and PostgreSQL are killed `times` times each meanwhile."""
    result, made = Result(), Claims()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder, ("quota",)))
        here.http = await stack.enter_async_context(
            httpx2.AsyncClient(trust_env=False, timeout=5.0, limits=httpx2.Limits(max_connections=writers + 4))
        )
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        now = datetime.now(UTC)
        capacity, topology = Resources(1000 * CORES, 1 << 40), CpuTopology(4, 4, 1, 1)
        facts = NodeFacts("n0", "default", capacity, Resources(), topology, "6.1", "v2", "f", "0")
        described = NodeDescribed(facts=facts, boot_epoch="boot", described_at=now)
        await bus.publish(event_of(described, source="test", time=now))
        await declare(here)
        began = time.monotonic()
        names = iter([f"claim-{number}" for number in range(claims)])
        writing = [asyncio.create_task(write(here, names, made, random.Random(seed))) for seed in range(writers)]
        killing = asyncio.create_task(kill_in_turn(here, made, claims, times))
        stack.callback(killing.cancel)
        await asyncio.gather(*writing)
        result.facts["writing_seconds"] = round(time.monotonic() - began, 2)
        result.facts["kills"] = await killing
        await until(partial(outbox_is_empty, here), SETTLE_SECONDS, "the outbox is empty", 0.1)
        await judge(here, made, claims, result)
        died = {name: each.unasked_exits for name, each in here.programs.items() if each.unasked_exits}
        result.promise("quota does not die because of PostgreSQL's death", not died)
    result.facts["repeats"] = made.repeats
    return result


async def declare(here: Site) -> None:
    items = [{"kind": "ElasticQuota", "metadata": {"name": name}, "spec": spec} for name, spec in QUOTAS.items()]
    answer = await here.http.post(here.url("quota", "/v1/elasticquotas"), json={"items": items})
    if answer.status_code != 200:
        raise RuntimeError(answer.text)

    async def known() -> bool:
        tree = await here.http.get(here.url("quota", "/v1/quotas/root/tree"))
        return tree.status_code == 200 and tree.json()["total"].get("cpu") == 1000 * CORES

    await until(known, 20.0, "the pool is known", 0.05)


async def write(here: Site, names: Any, made: Claims, chance: random.Random) -> None:
    """Claim after claim: most are started and released after a while, some hold on, some leave the queue."""
    for name in names:
        quota, cores = chance.choice(sorted(QUOTAS)), chance.choice((1, 1, 2, 4))
        path = f"/v1/quotas/{quota}/claims"
        body = {"id": name, "tier": "prod", "request": {"cpu": cores}, "grace_seconds": 0}
        state = (await again(here, made, "POST", path, body))["state"]
        made.asked[name] = quota, 1000 * cores
        if state == "admitted" and chance.random() < 0.3:
            await again(here, made, "POST", f"{path}/{name}/start")
        if chance.random() < 0.97:
            await again(here, made, "DELETE", f"{path}/{name}")
            made.released.add(name)


async def again(here: Site, made: Claims, method: str, path: str, body: Any = None) -> Any:
    """Send until it is answered, as a platform does. A start of what was reclaimed meanwhile is refused: fine."""
    while True:
        try:
            answer = await here.http.request(method, here.url("quota", path), json=body)
        except httpx2.HTTPError:
            answer = None
        if answer is not None and (answer.status_code < 300 or answer.json().get("code") == "claim_not_admitted"):
            return answer.json()
        made.repeats += 1
        await asyncio.sleep(0.05)


async def kill_in_turn(here: Site, made: Claims, claims: int, times: int) -> int:
    """Spread over the writing. Each victim works again before the next one is killed."""
    kills = 0
    for turn in range(2 * times):
        due = claims * (turn + 1) // (2 * times + 1)
        while len(made.asked) < due:
            await asyncio.sleep(0.02)
        if turn % 2:
            await here.kill_database()
            await asyncio.sleep(0.1)
            await here.start_database()
        else:
            here.programs["quota"].kill()
        kills += 1
        before = len(made.asked)
        while len(made.asked) == before and len(made.asked) < claims:
            await asyncio.sleep(0.02)
    return kills


async def outbox_is_empty(here: Site) -> bool:
    return not await here.backlog()


async def judge(here: Site, made: Claims, claims: int, result: Result) -> None:
    """Compare what was acknowledged with the tables, and the tables with each other."""
    rows: list[asyncpg.Record] = []
    for table in ("claims", "ended_claims"):
        rows += await here.rows(f"SELECT id, state, document FROM quota.{table}")  # noqa: S608
    stored = {row["id"]: json.loads(row["document"])["claim"] for row in rows}
    counts = Counter(row["id"] for row in rows)
    lost = [name for name, asked in made.asked.items() if _asked(stored.get(name)) != asked]
    doubled = [name for name, number in counts.items() if number > 1]
    phantom = [name for name in stored if name not in made.asked]
    result.findings = Findings(
        offered=claims,
        acked=len(made.asked),
        lost=len(lost),
        duplicates=len(doubled),
        phantom=len(phantom),
        examples=tuple([*lost, *doubled, *phantom][:12]),
    )
    live = {name for name, claim in stored.items() if claim["state"] in (*HOLDING, "queued")}
    result.promise("every claim was written", len(made.asked) == claims)
    result.promise("what was released is released once and for all", not live & made.released)
    held: Counter[str] = Counter()
    for claim in stored.values():
        if claim["state"] in HOLDING:
            held[claim["quota"]] += claim["admitted"].get("cpu", 0)
    rows = await here.rows("SELECT quota, used FROM quota.quota_uses")
    uses = {row["quota"]: json.loads(row["used"]).get("cpu", 0) for row in rows}
    result.promise("what is counted as used is what the claims hold", all(uses.get(q, 0) == held[q] for q in QUOTAS))
    result.promise("no quota is above its max", all(held[q] <= 1000 * QUOTAS[q]["max"]["cpu"] for q in QUOTAS))
    result.promise("the pool is not given out twice", sum(held.values()) <= 1000 * CORES)
    result.facts["claims"] = len(stored)
    result.facts["states"] = dict(Counter(claim["state"] for claim in stored.values()))


def _asked(claim: Mapping[str, Any] | None) -> tuple[str, int] | None:
    return None if claim is None else (claim["quota"], claim["request"]["cpu"])
