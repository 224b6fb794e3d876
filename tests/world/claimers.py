"""Clients that claim resources of quotas: they submit, start, release and give back, and repeat what got no answer.

A request is served by the use case of a replica, as its route would, in that replica's process: it dies with it, and
goes on with it after a standstill, when the client has asked another replica long since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.world.plan import QUOTA
from tests.world.processes import Process
from tests.world.quota_habits import BORROW_SECONDS, BORROWERS, LENDERS, PERIOD_SECONDS, TAKES_BACK
from tests.world.quotas import cores_of, quota_names
from tests.world.trace import Kind
from tests.world.world import Place, World

from slackwater.fairshare.claims import ENDED, ClaimState, QuotaClaim
from slackwater.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from slackwater.quota.domain.ledger_records import KeptClaim
from slackwater.quota.edge.claim_models import WantedClaim
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.quota.usecases.tree_view import ClaimStanding

ANSWER_SECONDS = 4.0
"""A client waits so long for an answer, then asks another replica."""
PAUSE_SECONDS = (0.2, 3.0)
LOOK_SECONDS, QUIET_LOOK_SECONDS = 2.0, 5.0
"""Between two looks at a claim, during the faults and after them."""
BEGIN_SECONDS = 5.0
FAVOURITES = 3
"""Quotas of a client."""
SUBMIT, START, RELEASE, LOOK = "submit", "start", "release", "look"
CONTENDED: Final = "quota_contended"
Request = Callable[[ManageClaims], Awaitable[ClaimStanding]]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as its client sends it; `claim` is what it asks for, of a submission only."""

    verb: str
    claim: QuotaClaim | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client was told: the claim, or the code of a refusal."""

    verb: str
    kept: KeptClaim | None = None
    code: str = ""


class Claimer:
    """One client with some workloads at a time. What it knows outlives its process."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._rng = world.random(name)
        self._workloads = self._rng.choice((3, 5, 8))
        names = quota_names(world.plan)
        self._quotas = self._rng.sample(names, min(FAVOURITES, len(names)))
        """Few, so that claims queue up behind each other."""
        self._hold_seconds = self._rng.choice((4.0, 15.0, 60.0))
        self._numbers = 0
        self._unanswered: set[str] = set()
        """Claims of which a request had no answer."""
        if TAKES_BACK in world.plan.habits:  # enough of them to fill a pool
            self._workloads, self._hold_seconds = 12, 20.0

    async def run(self, process: Process) -> None:
        """Work until the world ends."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workloads):
                group.create_task(self._work(process, self._world.random(f"{self.name} workload {number}")))

    @property
    def _is_quiet(self) -> bool:
        return self._world.loop.time() >= self._world.plan.fault_seconds

    async def _work(self, process: Process, rng: Random) -> None:
        await process.clock.sleep(BEGIN_SECONDS * (1 + rng.random()))
        while not self._is_quiet:
            await process.clock.sleep(rng.uniform(*PAUSE_SECONDS))
            await self._live(process, rng, self._drawn(rng))
        await asyncio.Event().wait()

    def _taking_back(self, rng: Random, cores: int) -> QuotaClaim:
        """Small claims of borrowers first, then larger ones of lenders: each takes several of them back."""
        borrows = self._world.loop.time() % PERIOD_SECONDS < BORROW_SECONDS
        small = ({"cpu": "500m"}, {"cpu": "1"}, {"cpu": f"{max(1, cores // 10)}"}, {"cpu": f"{max(1, cores // 6)}"})
        large = ({"cpu": "1500m"}, {"cpu": f"{max(2, cores // 6)}"}, {"cpu": f"{max(2, cores // 4)}"})
        request = rng.choice(small if borrows else large)
        if rng.random() < 0.3:
            request = {**request, "memory": rng.choice(("256Mi", "1Gi"))}
        wanted = WantedClaim(
            id=f"{self.name}-{self._numbers}",
            tier="prod" if rng.random() < 0.85 else "batch",
            request=request,
            priority=rng.choice((0, 0, 0, 3)),
            grace_seconds=rng.choice((0.0, 3.0)),
            non_preemptible=not borrows and rng.random() < 0.3,
        )
        return wanted.claim(rng.choice(BORROWERS if borrows else LENDERS))

    def _drawn(self, rng: Random) -> QuotaClaim:
        """A claim of a few shapes, so that equal ones meet in a queue."""
        self._numbers += 1
        cores = cores_of(self._world.plan)
        if TAKES_BACK in self._world.plan.habits:
            return self._taking_back(rng, cores)
        request = rng.choice(({"cpu": "500m"}, {"cpu": "1"}, {"cpu": "2"}, {"cpu": f"{max(1, cores // 4)}"}))
        if rng.random() < 0.2:
            request = {**request, "memory": rng.choice(("256Mi", "1Gi"))}
        wanted = WantedClaim(
            id=f"{self.name}-{self._numbers}",
            tier=rng.choice(("prod", "batch", "batch")),
            request=request,
            partial_minimum={"cpu": "250m"} if rng.random() < 0.1 else None,
            priority=rng.choice((0, 0, 0, 0, 3, 10)),
            non_preemptible=rng.random() < 0.1,
            grace_seconds=rng.choice((0.0, 3.0, 10.0)),
        )
        return wanted.claim(rng.choice(self._quotas))

    async def _live(self, process: Process, rng: Random, claim: QuotaClaim) -> None:
        """The life of one claim, until it has ended; during the quiet time it stays as it is."""
        submit = Ask(SUBMIT, claim)
        if rng.random() < 0.15:  # two replicas get the same request at the same time
            first, second = await asyncio.gather(
                self._told(process, rng, claim, submit), self._once(process, rng, claim, submit)
            )
            first = second if second is not None and first.kept is None else first
        else:
            first = await self._told(process, rng, claim, submit)
        if first.kept is None and claim.id in self._unanswered:
            process.start(self._given_up(process, claim), "given up")
        patience, holds = rng.uniform(5.0, 60.0), self._hold_seconds * rng.uniform(0.3, 1.5)
        answer, since = first, self._world.loop.time()
        while answer.kept is not None and answer.kept.claim.state not in ENDED:
            state, age = answer.kept.claim.state, self._world.loop.time() - since
            if state is ClaimState.RECLAIMING:
                answer = await self._give_back(process, rng, answer.kept.claim)
            elif state is ClaimState.ADMITTED and answer.verb != START and rng.random() < 0.7:
                answer, since = await self._told(process, rng, claim, Ask(START)), self._world.loop.time()
                continue
            elif not self._is_quiet and age >= (patience if state is ClaimState.QUEUED else holds):
                answer = await self._told(process, rng, claim, Ask(RELEASE))
                if rng.random() < 0.2:  # again, as after an answer that the client has lost
                    await self._told(process, rng, claim, Ask(RELEASE))
            else:
                await process.clock.sleep(QUIET_LOOK_SECONDS if self._is_quiet else LOOK_SECONDS)
                answer = await self._told(process, rng, claim, Ask(LOOK))

    async def _given_up(self, process: Process, claim: QuotaClaim) -> None:
        """Release a claim that was refused, because an earlier request without an answer may get it yet."""
        await process.clock.sleep(self._world.plan.fault_seconds - self._world.loop.time() + QUIET_LOOK_SECONDS)
        await self._told(process, self._world.random(f"{claim.id} given up"), claim, Ask(RELEASE))

    async def _give_back(self, process: Process, rng: Random, claim: QuotaClaim) -> Answer:
        """Some end at once, some use their grace, as a checkpoint does."""
        if claim.reclaim is not None and rng.random() < 0.5:
            await process.clock.sleep(max(0.0, claim.reclaim.deadline_s - claim.reclaim.since_s))
        return await self._told(process, rng, claim, Ask(RELEASE))

    async def _told(self, process: Process, rng: Random, claim: QuotaClaim, ask: Ask) -> Answer:
        """Ask until there is an answer that is no outage."""
        while True:
            answer = await self._once(process, rng, claim, ask)
            if answer is not None:
                return answer
            await process.clock.sleep(rng.uniform(*PAUSE_SECONDS))

    async def _once(self, process: Process, rng: Random, claim: QuotaClaim, ask: Ask) -> Answer | None:
        running = [place for name, place in self._world.places.items() if name.startswith(QUOTA) and place.is_serving]
        if not running:
            return None
        place = rng.choice(running)
        detail = {"verb": ask.verb, "replica": place.name, "quota": claim.quota}
        self._world.record(Kind.ASKED, claim.id, detail=detail, value=ask)
        answered = self._served(place, claim, ask)
        done, _ = await asyncio.wait({answered}, timeout=ANSWER_SECONDS)
        if not done:
            answered.cancel()
            self._unanswered.add(claim.id)
            return None
        answer = answered.result()
        if answer is not None:
            state = answer.code if answer.kept is None else answer.kept.claim.state.value
            self._world.record(Kind.ANSWERED, claim.id, detail={"verb": ask.verb, "is": state}, value=answer)
        return answer

    def _served(self, place: Place, claim: QuotaClaim, ask: Ask) -> asyncio.Future[Answer | None]:
        """Starts the request in the process of a replica."""
        answered: asyncio.Future[Answer | None] = self._world.loop.create_future()

        async def serve() -> None:
            answer: Answer | None = None
            try:
                standing = await _request(ask, claim)(place.service.claims)
                answer = Answer(ask.verb, standing.kept)
            except Unavailable:
                pass
            except (InvalidInput, Conflict, NotFound) as refusal:
                answer = None if refusal.code == CONTENDED else Answer(ask.verb, code=str(refusal.code))
            if not answered.done():
                answered.set_result(answer)

        assert place.process is not None
        place.process.start(serve(), "request")
        return answered


def _request(ask: Ask, claim: QuotaClaim) -> Request:
    """What the route of a verb calls."""
    if ask.verb == SUBMIT:
        return lambda claims: _submitted(claims, claim)
    if ask.verb == START:
        return lambda claims: claims.start(claim.quota, claim.id)
    if ask.verb == RELEASE:
        return lambda claims: claims.release(claim.quota, claim.id)
    return lambda claims: claims.claim(claim.quota, claim.id)


async def _submitted(claims: ManageClaims, claim: QuotaClaim) -> ClaimStanding:
    standing, _ = await claims.submit(claim)
    return standing
