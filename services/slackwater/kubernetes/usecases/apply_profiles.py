"""Applies the admission policy of all profiles: created with the first, changed with each, deleted with the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Final

from slackwater.apiserver.objects import MUTATION_BINDINGS, MUTATIONS, ObjectRecord, has_all
from slackwater.apiserver.port import ApiServer, WatchChange, WatchEvent
from slackwater.apiserver.records import WatchedKind
from slackwater.kubernetes.usecases.follow_documents import PARTITION
from slackwater.kubernetes.usecases.resources_read import ResourcesRead
from slackwater.model.errors import InvalidInput, Misconfigured, SlackwaterError
from slackwater.model.time import Clock
from slackwater.profiles.policy import NAME, mutation_objects
from slackwater.profiles.profile import ClusterColocationProfile
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE
from slackwater.resources.names import API_VERSION
from slackwater.runtime.loops import until_due
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

PROFILES: Final = CLUSTER_COLOCATION_PROFILE.plural
RETRY_SECONDS: Final = 5.0
GATHER_SECONDS: Final = 0.1
SYNC_SECONDS: Final = 30.0
"""Until the policies of the cluster are read after a start."""


class ApplyProfiles:
    """`changed` is set whenever the profiles or the policy may have changed; `on_refusal` is called when `refusal`
    changes."""

    def __init__(
        self,
        server: ApiServer,
        resources: ResourcesRead,
        clock: Clock,
        owned: Callable[[], Collection[int]],
        changed: asyncio.Event,
        on_refusal: Callable[[], None],
    ) -> None:
        self._server = server
        self._resources = resources
        self._clock = clock
        self._owned = owned
        self._changed = changed
        self._on_refusal = on_refusal
        self._since = clock.now()
        self.refusal = ""
        """Why the policy is not in force."""

    def hinders(self, plural: str) -> str:
        """Why the documents of a kind are not in force (slackwater.kubernetes.usecases.follow_documents)."""
        return self.refusal if plural == PROFILES else ""

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            await self._clock.sleep(GATHER_SECONDS)
            self._changed.clear()
            again_at: datetime | None = None
            try:
                await self.apply()
                refusal = ""
            except SlackwaterError as error:
                refusal = error.message
                again_at = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
            if refusal != self.refusal:
                self.refusal = refusal
                if refusal:
                    log.warning("policy of profiles not applied", reason=refusal)
                self._on_refusal()
            await until_due(self._clock, self._changed, again_at)

    async def apply(self) -> None:
        """Write what differs: the policy before its binding, and the deletion of the binding before the policy's."""
        if PARTITION not in self._owned() or not self._resources.is_synced(PROFILES):
            return
        wanted = {document["kind"]: document for document in mutation_objects(self._profiles())}
        kinds = (MUTATIONS, MUTATION_BINDINGS)
        if not all(self._resources.is_synced(kind.plural) for kind in kinds):
            if wanted and self._clock.now() >= self._since + timedelta(seconds=SYNC_SECONDS):
                raise Misconfigured("the API server does not serve MutatingAdmissionPolicy v1, or a right is missing")
            return
        for kind in kinds if wanted else reversed(kinds):
            await self._write(kind, wanted.get(kind.kind))

    async def _write(self, kind: WatchedKind[ObjectRecord], wanted: dict[str, Any] | None) -> None:
        present = self._resources.items(kind.plural).get(NAME)
        if wanted is None:
            if present is not None:
                await self._server.delete_object(kind, NAME, present.uid)
                self._resources.apply(kind, WatchEvent(WatchChange.DELETED, "", present))
        elif present is None or not has_all(present.read_spec(), wanted["spec"]):
            after = await self._server.apply_object(kind, NAME, wanted)
            self._resources.apply(kind, WatchEvent(WatchChange.UPSERTED, "", after))
            log.info("policy of profiles applied", kind=kind.kind)

    def _profiles(self) -> list[ClusterColocationProfile]:
        """The profiles of the cluster. One that cannot be read is left out, and refused by the service of the kind."""
        found = []
        for name, item in self._resources.items(PROFILES).items():
            document = {
                "apiVersion": API_VERSION,
                "kind": CLUSTER_COLOCATION_PROFILE.name,
                "metadata": {"name": name},
                "spec": item.read_spec(),
            }
            try:
                found.append(ClusterColocationProfile.parse(document))
            except InvalidInput as error:
                log.warning("profile left out", profile=name, reason=error.message)
        return found
