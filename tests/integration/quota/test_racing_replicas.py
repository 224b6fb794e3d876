"""Two replicas on real servers admit the same room: never twice, and no claim is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import httpx2
import pytest
from quota_scenes import TEAMS, document, node_described
from tests.support.kinds import no_checks
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import event_of
from slackwater.fairshare.claims import ENDED, ClaimState, QuotaClaim
from slackwater.model.errors import Conflict, NotFound, Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock
from slackwater.quota.service import QuotaService, build
from slackwater.quota.settings import QuotaSettings
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA
from slackwater.runtime.http import build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import connect_database

T = TypeVar("T")
WRITERS, ROUNDS = 16, 6
DELETIONS = 12
MOST = 10_000
"""Milli-cores of the pool."""


@asynccontextmanager
async def replica(nats_url: str, dsn: str) -> AsyncIterator[QuotaService]:
    database = connect_database(dsn, "quota", SystemClock())
    async with connect_bus(nats_url, name="replica", declares=False) as bus:
        platform = Platform(bus, SystemClock(), lambda _: database, Path("/nowhere"))
        service, started = build(QuotaSettings(round_seconds=0.05), platform), asyncio.Event()
        running = asyncio.create_task(service.run(started.set))
        await started.wait()
        try:
            yield service
        finally:
            running.cancel()
            await asyncio.wait([running])


async def store_quotas(service: QuotaService, quotas: Mapping[str, Mapping[str, Any]] = TEAMS) -> None:
    app = build_app(service.routers(), no_checks, HttpSettings.local())
    items = [document(name, spec) for name, spec in quotas.items()]
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        assert (await client.post("/v1/elasticquotas", json={"items": items})).status_code == 200


async def until_known(service: QuotaService) -> None:
    """Wait until the replica follows quotas and node."""
    while "team-b" not in service.trees.quotas() or not _knows_pools(service):
        await asyncio.sleep(0.02)


def _knows_pools(service: QuotaService) -> bool:
    try:
        service.trees.require_pools()
    except Unavailable:
        return False
    return service.trees.totals("").total.get("cpu", 0) >= MOST


async def write(service: QuotaService, writer: int, chance: random.Random) -> list[str]:
    """Submit claims, start and release what was admitted; returns all ids."""
    ids = []
    for _ in range(ROUNDS):
        quota = chance.choice(sorted(TEAMS))
        wanted = QuotaClaim(new_id(), quota, Tier.PROD, {"cpu": chance.choice((1_000, 2_500, 4_000))}, 0.0)
        ids.append(wanted.id)
        standing, _ = await repeated(partial(service.claims.submit, wanted))
        if standing.kept.claim.state is ClaimState.ADMITTED and chance.random() < 0.8:
            await repeated(partial(service.claims.release, quota, wanted.id))
    return ids


async def repeated(request: Callable[[], Awaitable[T]]) -> T:
    """The answer to a request that is repeated while others are faster, as its error asks: nothing was done then."""
    while True:
        try:
            return await request()
        except Conflict:
            continue


async def test_no_room_is_given_twice_and_no_claim_is_lost(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> None:
    dsn = (await fresh_database(["quota"]))["quota"]
    store = await asyncpg.connect(dsn, server_settings={"search_path": "quota"})
    overcommitted: list[int] = []

    async def watch() -> None:
        while True:
            rows = await store.fetch("SELECT document FROM claims WHERE state IN ('admitted', 'started', 'reclaiming')")
            claims = [json.loads(row["document"])["claim"] for row in rows]
            overcommitted.append(sum(claim["admitted"].get("cpu", 0) for claim in claims))
            await asyncio.sleep(0.01)

    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(replica(nats_url, dsn)) for _ in range(2)]
        await bus.publish(event_of(node_described("n0", MOST), source="test", time=SystemClock().now()))
        await store_quotas(services[0])
        for service in services:
            await until_known(service)
        watching = asyncio.create_task(watch())
        chance = random.Random(26)
        writers = [write(services[number % 2], number, random.Random(chance.random())) for number in range(WRITERS)]
        ids = [name for names in await asyncio.gather(*writers) for name in names]
        watching.cancel()
        states = {name: (await services[0].claims.find(name)).kept.claim for name in ids}
    assert max(overcommitted) <= MOST
    live = [claim for claim in states.values() if claim.state not in ENDED]
    used = {
        row["quota"]: json.loads(row["used"]).get("cpu", 0) for row in await store.fetch("SELECT * FROM quota_uses")
    }
    for quota in TEAMS:
        assert used[quota] == sum(claim.holds.get("cpu", 0) for claim in live if claim.quota == quota)
        assert used[quota] <= 10_000
    subjects = await store.fetch("SELECT count(*) AS n FROM claims UNION ALL SELECT count(*) FROM ended_claims")
    assert sum(row["n"] for row in subjects) == len(set(ids)) == WRITERS * ROUNDS
    with pytest.raises(asyncpg.CheckViolationError, match="used_within_ceiling"):
        await store.execute("""UPDATE quota_uses SET used = '{"cpu": 10001}'""")
    await store.close()


async def test_no_quota_is_deleted_while_another_replica_admits_a_claim_to_it(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> None:
    """Either the deletion finds the claim, or the claim finds no quota."""
    dsn, chance = (await fresh_database(["quota"]))["quota"], random.Random(26)
    names = [f"short-{number}" for number in range(DELETIONS)]
    outcomes: set[str] = set()

    async def submit(service: QuotaService, name: str) -> ClaimState | None:
        await asyncio.sleep(chance.uniform(0.0, 0.004))
        try:
            claim = QuotaClaim(f"of-{name}", name, Tier.PROD, {"cpu": 100}, 0.0)
            standing, _ = await repeated(partial(service.claims.submit, claim))
            return standing.kept.claim.state
        except NotFound:
            return None

    async def delete(service: QuotaService, name: str) -> str:
        try:
            await service.changes[ELASTIC_QUOTA].delete(name)
        except Conflict as error:
            return str(error.code)
        return "deleted"

    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(replica(nats_url, dsn)) for _ in range(2)]
        await bus.publish(event_of(node_described("n0", MOST), source="test", time=SystemClock().now()))
        await store_quotas(services[0], {**TEAMS, **{name: {"max": {"cpu": 10}} for name in names}})
        for service in services:
            await until_known(service)
        for name in names:
            deleted, state = await asyncio.gather(delete(services[0], name), submit(services[1], name))
            outcomes.add(deleted)
            holds = state is not None and state not in ENDED
            assert not (holds and deleted == "deleted"), (name, deleted, state)
            assert holds or deleted != "quota_in_use", (name, deleted, state)
    assert outcomes - {"conflict"} == {"deleted", "quota_in_use"}
