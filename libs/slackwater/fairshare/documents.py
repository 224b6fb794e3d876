"""ElasticQuota and QuotaProfile as operators write them, and the quotas they come to.

Source: shared/facts/koordinator-quota-scheduling.md 1.1, 1.9; Kueue has the queueing strategies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from slackwater.fairshare.tree import ROOT, Quota, is_cpu
from slackwater.model.records import record
from slackwater.resources.metadata import Label, Part, Resource
from slackwater.waterline.policies.quantity import Amount, quantity

MOST_AMOUNT: Final = 2**53
"""In the unit of the ledger; larger integers are not exact in every reader of JSON."""
MOST_RESOURCES: Final = 64
BEST_EFFORT: Final = "BestEffortFIFO"
STRICT: Final = "StrictFIFO"
MOST_CORES: Final = 10**9
MOST_BYTES: Final = 2**53
"""Max of `default`: more than any pool has."""
KNOWN_RESOURCES: Final = ("batch-cpu", "batch-memory", "cpu", "memory", "mid-cpu", "mid-memory")
"""What a ClusterView counts: prod uses `cpu` and `memory`."""

ResourceName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=253,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
]


def amount_of(resource: str, written: str | float) -> int:
    """Returns milli-cores of a CPU, else whole units. Raises ValueError for what is negative, too large or no whole
    unit."""
    text = repr(written) if isinstance(written, float) else str(written)
    number = quantity(text) * (1000 if is_cpu(resource) else 1)
    if not 0 <= number <= MOST_AMOUNT:
        raise ValueError(f"{resource}: {text} must be 0 to {Decimal(MOST_AMOUNT):,}")
    if number != number.to_integral_value():
        raise ValueError(
            f"{resource}: {text} is not a whole number of {'milli-cores' if is_cpu(resource) else 'units'}"
        )
    return int(number)


def amounts_of(written: Mapping[str, str | float]) -> dict[str, int]:
    """Returns amounts in the unit of the ledger, by resource. Raises ValueError."""
    return {resource: amount_of(resource, text) for resource, text in sorted(written.items())}


def _checked(written: dict[str, str | float]) -> dict[str, str | float]:
    amounts_of(written)
    return written


WrittenAmounts = Annotated[dict[ResourceName, Amount], Field(max_length=MOST_RESOURCES), AfterValidator(_checked)]
"""By resource: CPU in cores (`2`, `500m`), anything else in its unit (`4Gi`, `8`)."""


class ElasticQuotaSpec(Part):
    """A share of what a pool has. Claims go to quotas that are not parents."""

    parent: Label = Field(ROOT, description="quota above; `root` is generated from what the pool has")
    is_parent: bool = Field(False, description="whether it may have children; then it takes no claims itself")
    tree: Annotated[str, StringConstraints(max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")] = Field(
        "", description="tree of a QuotaProfile; empty: the tree of the pools that no profile names"
    )
    min: WrittenAmounts = Field(default_factory=dict, description="what it gets back whenever it asks for it")
    max: WrittenAmounts = Field(
        default_factory=dict, description="what it never exceeds; a resource that is not named is not limited"
    )
    shared_weight: WrittenAmounts = Field(
        default_factory=dict,
        description="share of what is left after all mins; of a resource that it does not name, or 0 in all: max",
    )
    guaranteed: WrittenAmounts = Field(default_factory=dict, description="kept even where mins are scaled down")
    allow_lent_resource: bool = Field(True, description="whether others may use what it does not ask for of its min")
    allow_min_scaling: bool = Field(True, description="whether its min shrinks where the mins of a level do not fit")
    non_preemptible: bool = Field(
        False, description="its claims are never reclaimed, and are admitted within its min only"
    )
    queue_policy: Literal["BestEffortFIFO", "StrictFIFO"] = Field(
        "BestEffortFIFO", description="StrictFIFO: no claim passes one that waits before it and does not fit"
    )


class ElasticQuota(Resource):
    """How much the claims of a team may use, what they are promised, and what they may borrow."""

    kind: Literal["ElasticQuota"] = "ElasticQuota"
    spec: ElasticQuotaSpec


class QuotaProfileSpec(Part):
    """The nodes whose resources a tree of quotas shares."""

    node_pool: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = Field(
        None, description="pool of its nodes; default: the name of the profile"
    )
    tree: Label | None = Field(None, description="tree that its quotas name; default: the name of the profile")
    resource_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        100, description="share of what the pool has that the tree may give out"
    )
    resources: Annotated[list[ResourceName], Field(max_length=MOST_RESOURCES)] = Field(
        default_factory=list, description="resources that the tree gives out; empty: all"
    )


class QuotaProfile(Resource):
    """A tree of quotas over a node pool; its root is generated from what the pool has."""

    kind: Literal["QuotaProfile"] = "QuotaProfile"
    spec: QuotaProfileSpec

    @property
    def pool(self) -> str:
        return self.spec.node_pool or self.name

    @property
    def tree(self) -> str:
        return self.spec.tree or self.name


@record(frozen=True, slots=True)
class DeclaredQuota:
    """A quota as its document declares it, without what its claims request and use."""

    quota: Quota
    non_preemptible: bool = False
    strict_fifo: bool = False
    generation: int = 0


@record(frozen=True, slots=True)
class QuotaPool:
    """What a tree gives out: `percent` of the nodes of `pool`. No resources: all that the pool has."""

    tree: str
    pool: str
    percent: int = 100
    resources: tuple[str, ...] = ()


def quota_of(document: ElasticQuota) -> DeclaredQuota:
    """Returns the quota that a document declares. Raises ValueError for an amount that the model does not take."""
    spec = document.spec
    quota = Quota(
        name=document.name,
        parent=spec.parent,
        minimum=amounts_of(spec.min),
        maximum=amounts_of(spec.max),
        weight=_weights(amounts_of(spec.shared_weight), amounts_of(spec.max)),
        guaranteed=amounts_of(spec.guaranteed),
        lends=spec.allow_lent_resource,
        scales=spec.allow_min_scaling,
        is_parent=spec.is_parent,
        tree=spec.tree,
    )
    strict = spec.queue_policy == STRICT
    return DeclaredQuota(quota, spec.non_preemptible, strict, document.metadata.generation)


def _weights(written: Mapping[str, int], maximum: Mapping[str, int]) -> dict[str, int]:
    """Returns the weights as written, and for each other resource of the max that: a quota that weighs one must not
    lose its share of the others. A 0 for what the max does not name says nothing, as in the field."""
    weights = {resource: weight for resource, weight in written.items() if weight or resource in maximum}
    return {**maximum, **weights} if written else {}


def pool_of(document: QuotaProfile) -> QuotaPool:
    """Returns what a profile's tree gives out."""
    spec = document.spec
    return QuotaPool(document.tree, document.pool, spec.resource_percent, tuple(sorted(spec.resources)))


def default_document(name: str) -> ElasticQuota:
    """Returns the quota of claims that no team has: no min, as much as the others leave, with the least weight."""
    most = {resource: MOST_CORES if is_cpu(resource) else MOST_BYTES for resource in KNOWN_RESOURCES}
    spec = {"max": most, "sharedWeight": least_weight(most)}
    document = {"metadata": {"name": name, "changedBy": "quota"}, "spec": spec}
    return ElasticQuota.parse(document)


def least_weight(resources: Iterable[str]) -> dict[str, str | int]:
    """Returns a weight as documents write it, that leaves what is shared to all others."""
    return {resource: "1m" if is_cpu(resource) else 1 for resource in resources}
