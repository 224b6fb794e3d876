"""What a platform and an operator do on the simulated day of `slackwater up`: a fleet on which evictions, moves and
quotas are at work from the first minutes, so that every page of the console shows something.

The operator writes documents once, where nothing else has been written. The platform submits claims of two teams and
releases what is reclaimed, and moves a pod now and then. Everything goes over the API, as in any other platform.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from slackwater.model.errors import Conflict, NotFound, SlackwaterError, Unavailable
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from slackwater.client import AsyncClient
    from slackwater.client.generated.models import ClaimView
    from slackwater.runtime.state import Endpoint

log = get_logger(__name__)

POOL: Final = "simulated"
LENDER, BORROWER = "team-a", "team-b"
MIN_CORES, MAX_CORES, CLAIM_CORES = 20, 48, 4
BORROWED_CLAIMS, LENDER_CLAIMS = 10, 4
"""The borrower asks for twice its min; the lender, now and then, for most of its own: more than the fleet offers."""
STEP_SECONDS, MOVE_SECONDS, REST_SECONDS, RUN_SECONDS = 5.0, 150.0, 90.0, 120.0
"""Between two rounds; two moves; two askings of the lender; and how long a claim runs."""
MOVED: Final = "orders"

_BATCH: Final = {
    "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
    "allowedActions": ["throttle", "evict"],
}
SURGE_RULE: Final[Mapping[str, Any]] = {
    "name": "prod-surge",
    "metricRule": {"name": "prod_cpu_pressure", "value": 0.2},
    "avoidanceThreshold": 5,
    "coolDownSeconds": 60,
    "actionName": "evict",
}
_QUOTA: Final = {"min": {"batch-cpu": str(MIN_CORES)}, "max": {"batch-cpu": str(MAX_CORES)}}


@dataclass(slots=True)
class SimulatedDay:
    """One run. Times are monotonic seconds."""

    client: AsyncClient
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    began: float = field(init=False)
    moved: float = 0.0
    lender_asked_at: float = 0.0
    submitted: int = 0
    started: dict[str, float] = field(default_factory=dict)
    """By claim, since when it runs."""
    refused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.began = self.monotonic()

    async def run(self) -> None:
        """Goes on until it is cancelled; what is refused or not there yet is tried again."""
        is_written = False
        while True:
            try:
                if not is_written:
                    is_written = await self._write()
                for team in (BORROWER, LENDER):
                    await self._claims(team)
                await self._move()
            except Unavailable:  # the services have just begun, or are about to end
                pass
            except SlackwaterError as error:
                self._note_refused(error)
            await self.sleep(STEP_SECONDS)

    def _note_refused(self, error: SlackwaterError) -> None:
        """A refusal is tried again each round, and said once."""
        if error.message not in self.refused:
            self.refused.add(error.message)
            log.warning("simulated day refused", code=error.code, reason=error.message)

    async def _write(self) -> bool:
        client = self.client
        present = await client.get_node_qos_default()
        if present.metadata.generation == 1:
            changed = present.model_dump(mode="json", by_alias=True, exclude_none=True)
            changed["spec"]["mode"] = "evict"
            changed["spec"]["rules"].append(dict(SURGE_RULE))
            await client.put_avoidance_action("evict", _document("AvoidanceAction", "evict", _ENDS))
            await client.put_pod_qos("batch", _document("PodQOS", "batch", _BATCH))
            await client.put_autonomy(POOL, _document("Autonomy", POOL, {"mode": "evict", "nodePool": POOL}))
            await client.put_node_qos_default(changed)
        for team in (LENDER, BORROWER):
            try:
                await client.get_elastic_quota(team)
            except NotFound:
                await client.put_elastic_quota(team, _document("ElasticQuota", team, _QUOTA))
        return True

    async def _claims(self, team: str) -> None:
        """Starts what is admitted, releases what has run or is reclaimed, and asks for more."""
        now, claims = self.monotonic(), (await self.client.list_claims(team)).items
        for claim in claims:
            await self._advance(team, claim, now)
        if team == LENDER and (claims or now - self.lender_asked_at < REST_SECONDS):
            return
        for _ in range((LENDER_CLAIMS if team == LENDER else BORROWED_CLAIMS) - len(claims)):
            self.submitted += 1
            name = f"{team}-{int(self.began)}-{self.submitted}"
            wanted = {"id": name, "tier": "batch", "request": {"cpu": str(CLAIM_CORES)}, "grace_seconds": 10}
            await self.client.submit_claim(team, {**wanted, "partial_minimum": {"cpu": "1"}})

    async def _advance(self, team: str, claim: ClaimView, now: float) -> None:
        began = self.started.get(claim.id)
        if claim.reclaim is not None or (began is not None and now - began > RUN_SECONDS):
            self.started.pop(claim.id, None)
            self.lender_asked_at = now if team == LENDER else self.lender_asked_at
            await self.client.release_claim(team, claim.id)
        elif claim.admitted_at is not None and began is None:
            self.started[claim.id] = now
            with suppress(Conflict):  # it runs since an earlier run of this program
                await self.client.start_claim(team, claim.id)

    async def _move(self) -> None:
        """Moves a pod of the fleet to the node with the largest offer."""
        now = self.monotonic()
        if now - max(self.moved, self.began) < (MOVE_SECONDS if self.moved else MOVE_SECONDS / 3):
            return
        offers = {offer.node: offer.batch.cpu_milli async for offer in self.client.list_offers()}
        pods = [pod async for pod in self.client.list_pods() if pod.workload == MOVED and pod.node in offers]
        if not pods or len(offers) < 2:
            return
        pod = min(pods, key=lambda pod: (offers[pod.node], pod.uid))
        target = max(offers, key=lambda node: (offers[node], node))
        self.moved = now
        spec = {"podRef": {"uid": pod.uid}, "targetNode": target, "reason": f"{pod.node} is to be repaired"}
        name = f"{MOVED}-{int(now)}"
        await self.client.put_pod_migration_job(name, _document("PodMigrationJob", name, spec))


_ENDS: Final = {"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False}


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "slackwater.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def live_day(endpoint: Endpoint) -> None:
    """Runs the day against a stack until it is cancelled. An error of its own is logged when it happens, and ends the
    day alone: the fleet goes on."""
    from slackwater.client import AsyncClient

    try:
        async with AsyncClient(endpoint.http_url, token=endpoint.token) as client:
            await SimulatedDay(client).run()
    except Exception:
        log.exception("simulated day ended")
