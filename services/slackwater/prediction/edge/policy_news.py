"""From news of the schema to the policies that are followed: whichever replica changes one, each follows at once."""

from __future__ import annotations

import asyncio

from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.time import Clock
from slackwater.prediction.usecases.policies_in_force import PoliciesInForce
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
AGAIN_SECONDS = 1.0


class PolicyNews:
    """Reads the documents again whenever something may have changed, until it could."""

    def __init__(self, policies: PoliciesInForce, clock: Clock) -> None:
        self._policies = policies
        self._clock = clock
        self._news = asyncio.Event()
        self._named: dict[str, str] = {}

    def tell(self) -> None:
        """Something was published to the replicas."""
        self._news.set()

    async def follow(self) -> None:
        """Work until cancelled."""
        self._name_problems()
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._policies.catch_up()
            except (Conflict, Unavailable) as error:
                log.warning("policies are not followed yet", reason=error.message)
                await self._clock.sleep(AGAIN_SECONDS)
                self._news.set()
            self._name_problems()

    def _name_problems(self) -> None:
        """Each one once."""
        problems = dict(self._policies.problems)
        for name, why in problems.items():
            if self._named.get(name) != why:
                log.error("policy is not usable", policy=name, reason=why)
        self._named = problems


def said(policies: PoliciesInForce) -> str:
    """For health: how many pools have a policy of their own, and which documents cannot be used."""
    pools = len(policies.policies.pools)
    broken = "; ".join(f"{name} keeps to the last good one: {why}" for name, why in sorted(policies.problems.items()))
    return f"{pools} pools with a policy of their own" + (f"; {broken}" if broken else "")
