"""Deletes the policy and the webhook of profiles where profiles are switched off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

from slackwater.apiserver.objects import MUTATION_BINDINGS, MUTATIONS, WEBHOOKS, ObjectRecord
from slackwater.apiserver.port import ApiServer, KindNotServed
from slackwater.apiserver.records import WatchedKind
from slackwater.kubernetes.usecases.follow_documents import PARTITION
from slackwater.model.errors import SlackwaterError
from slackwater.model.time import Clock
from slackwater.profiles.policy import NAME as POLICY
from slackwater.profiles.webhook import NAME as WEBHOOK
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

CHECK_SECONDS: Final = 60.0
"""How often it is looked for: a replica with the former setting may write it again until it is replaced."""
RETRY_SECONDS: Final = 5.0
PAGE_SIZE: Final = 500


class WithdrawProfiles:
    """Only what this service has applied is deleted; an object of the same name by another manager stays."""

    def __init__(self, server: ApiServer, clock: Clock, owned: Callable[[], Collection[int]]) -> None:
        self._server = server
        self._clock = clock
        self._owned = owned
        self.refusal = ""
        """Why something of it may still be there."""

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            seconds = CHECK_SECONDS
            try:
                if PARTITION in self._owned():
                    await self.withdraw()
                else:
                    seconds = RETRY_SECONDS
                self.refusal = ""
            except SlackwaterError as error:
                if error.message != self.refusal:
                    log.warning("policy of profiles not withdrawn", reason=error.message)
                self.refusal, seconds = error.message, RETRY_SECONDS
            await self._clock.sleep(seconds)

    async def withdraw(self) -> None:
        """Delete what is there: a binding before its policy. Raises the port's errors."""
        async for kind, found in self._own():
            await self._server.delete_object(kind, found.key, found.uid)
            log.info("profiles are off: deleted", kind=kind.kind, name=found.key)

    async def _own(self) -> AsyncIterator[tuple[WatchedKind[ObjectRecord], ObjectRecord]]:
        for kind in (MUTATION_BINDINGS, MUTATIONS):
            async for item in self._listed(kind):
                if item.key == POLICY and item.is_own:
                    yield kind, item
        webhook = await self._server.read_object(WEBHOOKS, WEBHOOK)
        if webhook is not None and webhook.is_own:
            yield WEBHOOKS, webhook

    async def _listed(self, kind: WatchedKind[ObjectRecord]) -> AsyncIterator[ObjectRecord]:
        """There is no right to read one policy by its name."""
        page = ""
        while True:
            try:
                answer = await self._server.list_page(kind, PAGE_SIZE, page)
            except KindNotServed:
                return
            for item in answer.items:
                yield item
            page = answer.next_page
            if not page:
                return
