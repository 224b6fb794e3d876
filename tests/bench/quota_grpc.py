"""Durable admissions over gRPC, beside single-row commits on the same PostgreSQL in the same run.

Admissions: unique claims that fit, each answered after its commit, by concurrent calls from another process, one claim
a call (Admit) and many (AdmitMany). Commits: 16 asyncpg connections insert one row of a claim's size each, with a
commit each. All in turn, several times; the target is that of the quicker call.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import grpc.aio
import httpx2
from tests.bench.control_plane import ROOT, ControlPlane, control_plane
from tests.bench.verdict import Target
from tests.faults.supervisor import free_port

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.v1 import quantity_pb2
from slackwater.v1 import quota_service_pb2 as messages
from slackwater.v1 import quota_service_pb2_grpc as stubs

CALLS, ROUNDS, CONNECTIONS, SECONDS = 128, 3, 16, 4.0
MANY_CALLS, CLAIMS_A_CALL = 8, 125
QUOTAS = tuple(f"team-{number}" for number in range(8))
ROW_BYTES = 700
CAPACITY = 10_000_000
"""Milli-cores of the pool: room for a million claims."""
TARGET_RATIO = 1.0


def measure(directory: Path) -> dict[str, Any]:
    """Measures both; the target is their ratio."""
    return asyncio.run(_measure(directory))


async def _measure(directory: Path) -> dict[str, Any]:
    port = free_port()
    async with control_plane(directory, ["quota"], {"SLACKWATER_GRPC_PORT": str(port)}) as plane:
        await _declare(plane)
        commits, admissions, together = [], [], []
        for number in range(ROUNDS):
            commits.append(await _commits(plane.postgres_dsn))
            admissions.append(await _admissions(port, number, 1))
            together.append(await _admissions(port, number, CLAIMS_A_CALL))
    one, many = (statistics.median(each) / statistics.median(commits) for each in (admissions, together))
    ratio = max(one, many)
    return {
        "targets": (Target("admissions over gRPC / single-row commits", ratio, TARGET_RATIO, "x", at_least=True),),
        "admissions_per_second": [round(each) for each in admissions],
        "together_per_second": [round(each) for each in together],
        "commits_per_second": [round(each) for each in commits],
        "ratio": round(one, 2),
        "ratio_together": round(many, 2),
        "calls_at_once": [CALLS, MANY_CALLS],
        "claims_a_call": [1, CLAIMS_A_CALL],
    }


async def _declare(plane: ControlPlane) -> None:
    now = datetime.now(UTC)
    capacity, topology = Resources(CAPACITY, 1 << 40), CpuTopology(4, 4, 1, 1)
    facts = NodeFacts("n0", "default", capacity, Resources(), topology, "6.1", "v2", "fake", "0")
    async with connect_bus(plane.nats_url, name="bench", declares=False) as bus:
        described = NodeDescribed(facts=facts, boot_epoch="boot", described_at=now)
        await bus.publish(event_of(described, source="bench", time=now))
    spec = {"min": {"cpu": 1000}, "max": {"cpu": 1_000_000}}
    items = [{"kind": "ElasticQuota", "metadata": {"name": name}, "spec": spec} for name in QUOTAS]
    async with httpx2.AsyncClient(trust_env=False, base_url=plane.urls["quota"]) as http:
        (await http.post("/v1/elasticquotas", json={"items": items})).raise_for_status()
        while (await http.get("/v1/quotas/root/tree")).json()["total"].get("cpu", 0) < CAPACITY:
            await asyncio.sleep(0.05)


async def _commits(dsn: str) -> float:
    """Commits a second."""
    pool = await asyncpg.create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS)
    await pool.execute("CREATE TABLE IF NOT EXISTS bench_commits (id bigserial PRIMARY KEY, document jsonb NOT NULL)")
    document, count = json.dumps({"claim": "x" * ROW_BYTES}), 0
    until = time.monotonic() + SECONDS

    async def write() -> int:
        done = 0
        async with pool.acquire() as connection:
            while time.monotonic() < until:
                await connection.execute("INSERT INTO bench_commits (document) VALUES ($1::jsonb)", document)
                done += 1
        return done

    began = time.monotonic()
    count = sum(await asyncio.gather(*(write() for _ in range(CONNECTIONS))))
    seconds = time.monotonic() - began
    await pool.close()
    return count / seconds


async def _admissions(port: int, number: int, claims_a_call: int) -> float:
    """Admissions a second, as the process of the clients counts them."""
    command = [sys.executable, "-m", "tests.bench.quota_grpc", str(port), str(number), str(claims_a_call)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return float(out)


async def _admit(port: int, number: int, claims_a_call: int) -> float:
    until, began = time.monotonic() + SECONDS, time.monotonic()

    def request(caller: int, place: int) -> messages.AdmitRequest:
        return messages.AdmitRequest(
            id=f"c-{number}-{claims_a_call}-{caller}-{place}",
            quota=QUOTAS[(caller + place) % len(QUOTAS)],
            tier=quantity_pb2.TIER_PROD,
            request={"cpu": "10m"},
        )

    async def call(stub: Any, caller: int) -> int:
        done = 0
        while time.monotonic() < until:
            wanted = [request(caller, done + place) for place in range(claims_a_call)]
            if claims_a_call == 1:
                answers = [await stub.Admit(wanted[0])]
            else:
                answers = (await stub.AdmitMany(messages.AdmitManyRequest(claims=wanted))).results
            for answer in answers:
                if answer.claim.state != messages.CLAIM_STATE_ADMITTED:
                    raise RuntimeError(f"not admitted: {answer}")
            done += len(wanted)
        return done

    callers = CALLS if claims_a_call == 1 else MANY_CALLS
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = stubs.QuotaServiceStub(channel)
        count = sum(await asyncio.gather(*(call(stub, caller) for caller in range(callers))))
    return count / (time.monotonic() - began)


if __name__ == "__main__":
    print(asyncio.run(_admit(*map(int, sys.argv[1:]))))  # noqa: T201
