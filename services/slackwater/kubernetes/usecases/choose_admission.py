"""Decides by what profiles change new pods: the API server's own policy where it has that kind, else the webhook."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from slackwater.apiserver.objects import MUTATIONS
from slackwater.apiserver.port import ApiServer
from slackwater.model.errors import SlackwaterError
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

CHECK_SECONDS: Final = 60.0
"""How often discovery is read: an API server is upgraded while this service runs."""
RETRY_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 1.0


class ProfileMode(StrEnum):
    """By what profiles change new pods."""

    AUTO = "auto"
    POLICY = "policy"
    WEBHOOK = "webhook"
    OFF = "off"


class ChooseAdmission:
    """`changed` is called when the choice changes."""

    def __init__(self, server: ApiServer, mode: ProfileMode, clock: Clock, changed: Callable[[], None]) -> None:
        self._server = server
        self._mode = mode
        self._clock = clock
        self._changed = changed
        self.has_policies: bool | None = None
        """Whether the API server serves MutatingAdmissionPolicy v1; None: not known yet."""

    @property
    def chosen(self) -> ProfileMode | None:
        """Policy or webhook; None: not known yet."""
        if self.has_policies is None:
            return None
        if self._mode is not ProfileMode.AUTO:
            return self._mode
        return ProfileMode.POLICY if self.has_policies else ProfileMode.WEBHOOK

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                served = await self._server.serves(MUTATIONS)
            except SlackwaterError:  # the followers of other kinds say so
                await self._clock.sleep(RETRY_SECONDS)
                continue
            if served != self.has_policies:
                self.has_policies = served
                log.info("admission of profiles chosen", by=str(self.chosen), policies_served=served)
                self._changed()
            await self._clock.sleep(CHECK_SECONDS)

    async def wait_for_policies(self) -> None:
        """Returns when the API server serves policies: before, there is nothing to list."""
        while not self.has_policies:
            await self._clock.sleep(WAIT_SECONDS)
