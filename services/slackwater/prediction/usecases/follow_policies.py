"""Applies changed policies to the models without a restart."""

from __future__ import annotations

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.prediction.usecases.owned_partitions import OwnedPartitions
from slackwater.prediction.usecases.policies_in_force import PoliciesInForce
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class FollowPolicies:
    """Applies the policies to all partitions of this replica."""

    def __init__(self, shares: OwnedPartitions, policies: PoliciesInForce) -> None:
        self._shares = shares
        self._policies = policies

    async def begin(self) -> None:
        """Applies the policies before the first partition is acquired. Raises InvalidInput, Misconfigured."""
        await self._shares.follow(self._policies.policies)

    async def __call__(self) -> None:
        try:
            for reason in await self._shares.follow(self._policies.policies):
                log.warning("model begins anew", reason=reason)
        except (InvalidInput, Misconfigured) as error:  # the policies were validated, but a factory may still fail
            log.error("policies are not followed", reason=error.message)
