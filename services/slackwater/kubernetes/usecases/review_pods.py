"""Answers the API server's question what profiles make of a new pod. Every answer lets the pod pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.records import NAMESPACES
from slackwater.kubernetes.metrics import AdmissionMetrics
from slackwater.model.errors import InvalidInput
from slackwater.model.time import Clock
from slackwater.profiles.limits import matters
from slackwater.profiles.profile import ClusterColocationProfile
from slackwater.profiles.review import answer, patch_of, read_request
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

NAMESPACE_SECONDS: Final = 2.0
"""How long a review waits for the watch to show a namespace that was created a moment ago."""
_WAIT_SECONDS: Final = 0.05


class ReviewPods:
    """`profiles` are those of the cluster, and `limited` its limited namespaces; None before they were listed."""

    def __init__(
        self,
        inventory: Inventory,
        profiles: Callable[[], Sequence[ClusterColocationProfile] | None],
        clock: Clock,
        meter: AdmissionMetrics,
        excluded: Collection[str],
        limited: Callable[[], Collection[str] | None],
    ) -> None:
        self._inventory = inventory
        self._profiles = profiles
        self._clock = clock
        self._meter = meter
        self._excluded = excluded
        self._limited = limited

    async def __call__(self, body: object) -> dict[str, Any]:
        """The answer to an AdmissionReview. Raises InvalidInput for what is none."""
        request = read_request(body)
        uid, namespace = str(request["uid"]), str(request.get("namespace") or "")
        try:
            profiles, labels = self._known_profiles(), await self._labels(namespace)
            patch = patch_of(request, profiles, labels, self._excluded, self._known_limits(profiles))
        except InvalidInput as error:
            log.warning("pod left as it is", namespace=namespace, reason=error.message)
            self._meter.reviewed("failed")
            return answer(uid, (), f"slackwater: no profile was applied: {error.message}")
        self._meter.reviewed("changed" if patch else "unchanged")
        return answer(uid, patch)

    def _known_profiles(self) -> Sequence[ClusterColocationProfile]:
        profiles = self._profiles()
        if profiles is None:
            raise InvalidInput("the profiles were not listed yet")
        return profiles

    def _known_limits(self, profiles: Sequence[ClusterColocationProfile]) -> Collection[str]:
        """Raises InvalidInput if they matter and are not known."""
        limited = self._limited()
        if limited is None and matters(profiles):
            raise InvalidInput("ResourceQuotas and LimitRanges were not listed yet")
        return limited or ()

    async def _labels(self, namespace: str) -> Mapping[str, str]:
        """Raises InvalidInput if the namespace is not known."""
        deadline = self._clock.now().timestamp() + NAMESPACE_SECONDS
        while (known := self._inventory.items(NAMESPACES).get(namespace)) is None:
            if self._clock.now().timestamp() >= deadline:
                raise InvalidInput(f"namespace {namespace} is not known yet")
            await self._clock.sleep(_WAIT_SECONDS)
        return dict(known.labels)
