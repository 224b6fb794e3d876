"""Applies what admits pods by all profiles: created with the first, changed with each, deleted with the last.

Either the API server's own policy or the webhook, never both: the other is deleted first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.objects import MUTATION_BINDINGS, MUTATIONS, WEBHOOKS, ObjectRecord, has_all
from slackwater.apiserver.port import ApiServer, WatchChange, WatchEvent
from slackwater.apiserver.records import NAMESPACES, PRIORITY_CLASSES, WatchedKind
from slackwater.kubernetes.usecases.choose_admission import ChooseAdmission, ProfileMode
from slackwater.kubernetes.usecases.follow_documents import PARTITION
from slackwater.kubernetes.usecases.resources_read import ResourcesRead
from slackwater.model.errors import InvalidInput, Misconfigured, SlackwaterError, Unavailable
from slackwater.model.time import Clock
from slackwater.profiles.limits import effect_of_limits, matters, with_known_class
from slackwater.profiles.policy import NAME, expressions_of, mutation_objects
from slackwater.profiles.profile import ClusterColocationProfile
from slackwater.profiles.webhook import NAME as WEBHOOK
from slackwater.profiles.webhook import WebhookAddress, webhook_configuration
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE
from slackwater.resources.names import API_VERSION
from slackwater.runtime.loops import until_due
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

PROFILES: Final = CLUSTER_COLOCATION_PROFILE.plural
RETRY_SECONDS: Final = 5.0
GATHER_SECONDS: Final = 0.1
COMPARE_SECONDS: Final = 30.0
"""How often what this loop is not told of is compared: the webhook's configuration, and PriorityClasses."""
SYNC_SECONDS: Final = 30.0
"""Until the policies of the cluster are read after a start."""


class ApplyProfiles:
    """`bundle` is the authorities of the webhook's certificates.

    `changed` is set whenever the profiles or what applies them may have changed; `on_refusal` is called when `refusal`
    changes."""

    def __init__(
        self,
        server: ApiServer,
        inventory: Inventory,
        resources: ResourcesRead,
        clock: Clock,
        owned: Callable[[], Collection[int]],
        changed: asyncio.Event,
        on_refusal: Callable[[], None],
        choice: ChooseAdmission,
        address: WebhookAddress,
        excluded: Collection[str],
        bundle: Callable[[], str],
    ) -> None:
        self._server = server
        self._inventory = inventory
        self._resources = resources
        self._choice = choice
        self._address = address
        self._excluded = excluded
        self._bundle = bundle
        self._trusted: tuple[str, datetime] | None = None
        self._has_webhook = True
        """False once it is known that there is none: only this service makes one."""
        self._clock = clock
        self._owned = owned
        self._changed = changed
        self._on_refusal = on_refusal
        self._since = clock.now()
        self._left_out: Mapping[str, str] = {}
        """Why profiles are not in the policy, by name."""
        self.refusal = ""
        """Why the policy is not in force."""

    def hinders(self, key: str) -> str:
        """Why a document, `PLURAL/NAME`, is not in force (slackwater.kubernetes.usecases.follow_documents)."""
        plural, _, name = key.partition("/")
        return (self.refusal or self._left_out.get(name, "")) if plural == PROFILES else ""

    def note(self, key: str) -> str:
        """What a profile does otherwise than it says, for want of its PriorityClass or in limited namespaces; empty for
        other documents, `PLURAL/NAME`."""
        plural, _, name = key.partition("/")
        profile = self._parsed(name) if plural == PROFILES else None
        if profile is None:
            return ""
        limited, known = self._resources.limited_namespaces() or {}, self._inventory.items(NAMESPACES)
        labels = {name: dict(known[name].labels) for name in limited if name in known and name not in self._excluded}
        _, without = with_known_class(profile, self._classes())
        return "; ".join(filter(None, (without, effect_of_limits(profile, limited, labels))))

    def _classes(self) -> Mapping[str, tuple[int, str]]:
        return {
            name: (known.value, "PreemptLowerPriority" if known.preempts else "Never")
            for name, known in self._inventory.items(PRIORITY_CLASSES).items()
        }

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            await self._clock.sleep(GATHER_SECONDS)
            self._changed.clear()
            again_at: datetime | None = None
            left_out = self._left_out
            try:
                await self.apply()
                refusal = ""
                if self._choice.chosen is ProfileMode.WEBHOOK or self._names_classes():
                    again_at = self._clock.now() + timedelta(seconds=COMPARE_SECONDS)
            except SlackwaterError as error:
                refusal = error.message
                again_at = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
            if (refusal, left_out) != (self.refusal, self._left_out):
                self.refusal = refusal
                if refusal:
                    log.warning("policy of profiles not applied", reason=refusal)
                self._on_refusal()
            await until_due(self._clock, self._changed, again_at)

    def trusted_since(self, bundle: str) -> datetime | None:
        """Since when the API server has had these authorities, as this replica has seen it; None: it has others, or the
        webhook is not in use by it."""
        if self._trusted is None or self._trusted[0] != bundle:
            return None
        return self._trusted[1]

    async def apply(self) -> None:
        """Write what differs. Raises the port's errors, and Misconfigured for what the cluster lacks."""
        if PARTITION not in self._owned():
            self._trusted = None
            return
        profiles = self.profiles()
        if profiles is None:
            return
        limited = self._resources.limited_namespaces()
        if limited is None and matters(profiles):
            if not self._starts():
                raise Misconfigured("ResourceQuotas and LimitRanges cannot be listed: a right is missing")
            return
        by_policy = self._choice.chosen is ProfileMode.POLICY
        self._left_out = expressions_of(profiles)[1] if by_policy else {}
        match self._choice.chosen:
            case ProfileMode.POLICY:
                await self._remove_webhook()
                await self._apply_policy(mutation_objects(profiles, self._excluded, limited or ()))
            case ProfileMode.WEBHOOK:
                if not self._choice.has_policies or await self._apply_policy([]):
                    await self._apply_webhook(profiles)

    async def _apply_policy(self, objects: Sequence[dict[str, Any]]) -> bool:
        """The policy before its binding, and the deletion of the binding before the policy's. False: nothing is known
        of them yet."""
        wanted = {document["kind"]: document for document in objects}
        kinds = (MUTATIONS, MUTATION_BINDINGS)
        if not all(self._resources.is_synced(kind.plural) for kind in kinds):
            if wanted and not self._starts():
                raise Misconfigured("the API server does not serve MutatingAdmissionPolicy v1, or a right is missing")
            return False
        for kind in kinds if wanted else reversed(kinds):
            await self._write(kind, wanted.get(kind.kind))
        return True

    async def _apply_webhook(self, profiles: Sequence[ClusterColocationProfile]) -> None:
        bundle = self._bundle()
        if not profiles:
            await self._remove_webhook()
            self._trust(bundle)  # no API server asks: every certificate may be served
            return
        if not bundle:
            if not self._starts():
                raise Unavailable("the webhook has no certificate: /readyz?verbose says why")
            return
        wanted = webhook_configuration(self._address, bundle, self._excluded)
        present = await self._server.read_object(WEBHOOKS, WEBHOOK)
        if present is None or not has_all(present.read_spec(), wanted["webhooks"]):
            await self._server.apply_object(WEBHOOKS, WEBHOOK, wanted)
            log.info("webhook of profiles applied")
        self._has_webhook = True
        self._trust(bundle)

    async def _remove_webhook(self) -> None:
        if not self._has_webhook:
            return
        present = await self._server.read_object(WEBHOOKS, WEBHOOK)
        if present is not None:
            await self._server.delete_object(WEBHOOKS, WEBHOOK, present.uid)
            log.info("webhook of profiles deleted")
        self._has_webhook = False

    def _starts(self) -> bool:
        """Whether what is missing may still come by itself."""
        return self._clock.now() < self._since + timedelta(seconds=SYNC_SECONDS)

    def _trust(self, bundle: str) -> None:
        if self._trusted is None or self._trusted[0] != bundle:
            self._trusted = bundle, self._clock.now()

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

    def profiles(self) -> Sequence[ClusterColocationProfile] | None:
        """The profiles of the cluster; None: they were not listed yet. One that cannot be read is left out, and refused
        by the service of the kind."""
        if not self._resources.is_synced(PROFILES):
            return None
        if not self._inventory.is_synced(PRIORITY_CLASSES) and self._starts():
            return None
        found, classes = map(self._parsed, self._resources.items(PROFILES)), self._classes()
        return [with_known_class(profile, classes)[0] for profile in found if profile is not None]

    def _names_classes(self) -> bool:
        """Whether a PriorityClass that changes may change what is applied."""
        found = map(self._parsed, self._resources.items(PROFILES))
        return any(profile is not None and profile.spec.priority_class is not None for profile in found)

    def _parsed(self, name: str) -> ClusterColocationProfile | None:
        item = self._resources.items(PROFILES).get(name)
        if item is None:
            return None
        document = {
            "apiVersion": API_VERSION,
            "kind": CLUSTER_COLOCATION_PROFILE.name,
            "metadata": {"name": name},
            "spec": item.read_spec(),
        }
        try:
            return ClusterColocationProfile.parse(document)
        except InvalidInput as error:
            log.warning("profile left out", profile=name, reason=error.message)
            return None
