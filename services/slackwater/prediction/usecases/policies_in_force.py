"""What predictions follow just now: the stored documents as policies, and the last good one of what is not usable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from slackwater.model.errors import InvalidInput, Misconfigured, NotFound
from slackwater.model.records import record
from slackwater.prediction.domain.inheriting import RATE, Wish, effective
from slackwater.prediction.domain.policy import CLUSTER, Policies, PoolPolicy
from slackwater.prediction.ports import Predictors
from slackwater.prediction.usecases.predict_policy import (
    BY_SETTINGS,
    EffectivePolicy,
    PredictPolicy,
    PredictPolicyStatus,
    first_document,
)
from slackwater.runtime.documents import DocumentMeter, DocumentStore, StoredDocument, keep_settings

Told = Callable[[Policies], None]


@record(frozen=True, slots=True)
class InForce:
    """Policies with what is behind them. `followed` has the policy of every document by its name; `problems` says by
    name why the stored generation is not the one that is followed."""

    policies: Policies
    followed: Mapping[str, PoolPolicy] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def usable(wish: Wish, above: PoolPolicy, predictors: Predictors) -> PoolPolicy:
    """The policy that a document comes to. Raises InvalidInput that names the field, Misconfigured."""
    found = effective(wish, above)
    for resource in ("cpu", "memory"):
        choice = found.model_of(resource)
        if resource in wish.rates and not predictors.takes_rate(choice.name):
            raise InvalidInput(
                f"spec.violationRate: the model of {resource}, {choice.name}, cannot be told a rate; leave it out, or "
                "choose a model with this setting (GET /v1/predictors says which have it)",
                field="spec.violationRate",
            )
        try:
            predictors.check(choice, resource)
        except InvalidInput as error:
            place = "violationRate" if error.field == RATE and resource in wish.rates else f"models.{resource}"
            raise InvalidInput(f"spec.{place}: {error.message}", code=error.code, field=f"spec.{place}") from None
    return found


def follow(rows: Iterable[StoredDocument], predictors: Predictors, first: PoolPolicy, before: InForce) -> InForce:
    """What is in force with these documents; `first` is what the service's settings say, on which the cluster's stands.
    A document that cannot be read or used keeps what it was `before`; if it was nothing, it is as if it was not there.
    """
    stored = {row.name: row for row in rows if row.document is not None}
    followed: dict[str, PoolPolicy] = {}
    pools: dict[str, PoolPolicy] = {}
    problems: dict[str, str] = {}
    cluster = first
    for name in sorted(stored, key=lambda one: one != CLUSTER):  # the cluster's first: the others stand on it
        try:
            document = document_of(stored[name])
            policy = usable(document.wish(), cluster, predictors)
            pool = document.pool
        except (InvalidInput, Misconfigured) as error:
            problems[name] = error.message
            if name not in before.followed:
                continue
            policy = before.followed[name]
            pool = next((pool for pool, known in before.policies.pools.items() if known == policy), None)
        followed[name] = policy
        if name == CLUSTER:
            cluster = policy
        elif pool is not None:
            pools[pool] = policy
    return InForce(Policies(cluster, pools), followed, problems)


def document_of(row: StoredDocument) -> PredictPolicy:
    """Raises InvalidInput for what cannot be read, NotFound for what was deleted."""
    if row.document is None:
        raise NotFound(f"predictpolicy {row.name} was deleted", code="predictpolicy_not_found")
    return PredictPolicy.parse(row.document).with_generation(row.generation)


class PoliciesInForce:
    """The policies of this replica. `on_change` gets them whenever they have changed, with nothing else to ask."""

    def __init__(self, store: DocumentStore, predictors: Predictors, first: PoolPolicy, meter: DocumentMeter) -> None:
        self._store = store
        self._predictors = predictors
        self._first = first
        self._meter = meter
        self._found = InForce(Policies(first))
        self._tells: list[Told] = []
        self._reads: list[Callable[[Mapping[str, str]], None]] = []
        self._turn = asyncio.Lock()

    @property
    def policies(self) -> Policies:
        """By the settings before the first load."""
        return self._found.policies

    @property
    def problems(self) -> Mapping[str, str]:
        """By name of the document, why its newest generation is not followed."""
        return self._found.problems

    def on_change(self, tell: Told) -> None:
        """Have `tell` called with the policies now and whenever they have changed."""
        self._tells.append(tell)
        tell(self.policies)

    def on_read(self, tell: Callable[[Mapping[str, str]], None]) -> None:
        """Have `tell` called with the problems of all documents whenever they have been read."""
        self._reads.append(tell)

    async def load(self) -> None:
        """Follow what is stored. While nobody has changed the cluster's document, it is what the settings say.

        Raises Unavailable, and InvalidInput if the settings themselves cannot be used.
        """
        first = first_document(self._first)
        self.check(first)
        await keep_settings(
            self._store, CLUSTER, BY_SETTINGS, lambda generation: first.with_generation(generation).stored()
        )
        await self.catch_up()

    async def catch_up(self) -> None:
        """Read the documents again and follow them. Raises Unavailable; then all stays as it was."""
        async with self._turn:
            self._adopt(follow(await self._store.documents(), self._predictors, self._first, self._found))

    def cluster_of(self, rows: Sequence[StoredDocument]) -> PoolPolicy:
        """The cluster's policy as these documents have it."""
        return follow(
            [row for row in rows if row.name == CLUSTER], self._predictors, self._first, self._found
        ).policies.cluster

    def check(self, wanted: PredictPolicy, cluster: PoolPolicy | None = None) -> PoolPolicy:
        """What it comes to, on the given policy of the cluster, or as the cluster's own. Raises InvalidInput."""
        return usable(wanted.wish(), cluster or self._first, self._predictors)

    def status_of(self, name: str) -> PredictPolicyStatus:
        """What became of a document on this replica."""
        policy = self._found.followed.get(name)
        return PredictPolicyStatus(
            observed_generation=0 if policy is None else policy.generation,
            effective=None if policy is None else EffectivePolicy.of(policy),
            problem=self._found.problems.get(name, ""),
        )

    def _adopt(self, found: InForce) -> None:
        before, self._found = self._found, found
        self._meter.policies(len(found.followed.keys() - found.problems.keys()), len(found.problems))
        for read in self._reads:
            read(found.problems)
        if found.policies != before.policies:
            for tell in self._tells:
                tell(found.policies)


def pools_taken(rows: Sequence[StoredDocument]) -> Mapping[str, str]:
    """Name of the document by pool, of all that can be read."""
    taken = {}
    for row in rows:
        if row.document is not None:
            try:
                document = document_of(row)
            except InvalidInput:
                continue
            if document.pool is not None:
                taken[document.pool] = row.name
    return taken
