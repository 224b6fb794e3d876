"""The PredictPolicy document: the operator's settings of predictions, in Kubernetes' form.

Field names of the cadence are those of the field's node prediction proposal. Every ratio is 0..1, every duration in
seconds. `default` is for the whole cluster. Every other document is for one node pool, and its omitted fields follow
the cluster's.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from slackwater.prediction.domain.policy import ModelChoice, PoolPolicy
from slackwater.prediction.domain.policy_inheritance import RATE, PolicyOverrides
from slackwater.resources.cel import CelRule, is_of_type
from slackwater.resources.metadata import Metadata, Part, Resource
from slackwater.resources.names import BY_SETTINGS, CLUSTER

Pool = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$")]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Rate = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Interval = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
_CADENCE: Final = {
    "histogram_update_seconds": "histogram_update_interval_seconds",
    "reporting_seconds": "reporting_interval_seconds",
    "check_seconds": "check_prediction_interval_seconds",
    "resource_diff_threshold": "resource_diff_threshold",
    "force_update_seconds": "force_update_interval_seconds",
}
"""Fields of Cadence, and their names in the document."""


def _rate_rules() -> tuple[CelRule, ...]:
    """What `violationRate` may be: a rate, or rates by resource; and that no rate is stated twice."""
    rate, resources = "self.violationRate", ("cpu", "memory")
    numbers = {
        name: f"{is_of_type(name, 'int', 'double')} && {name} > 0.0 && {name} < 1.0"
        for name in (rate, *(f"{rate}.{resource}" for resource in resources))
    }
    by_resource = " && ".join(f"(!has({rate}.{resource}) || {numbers[f'{rate}.{resource}']})" for resource in resources)
    shape = f"type({rate}) == map ? {rate}.all(key, key in {list(resources)}) && {by_resource} : {numbers[rate]}"
    allowed = "must be above 0 and below 1, or an object with such numbers as cpu and memory"
    return (
        CelRule(f"!has({rate}) || ({shape})", allowed, "violationRate", by_admission=True),
        *(
            CelRule(
                f"!has({rate}) || (type({rate}) == map && !has({rate}.{resource})) || !has(self.models)"
                f" || !has(self.models.{resource}) || !has(self.models.{resource}.settings)"
                f" || !has(self.models.{resource}.settings.{RATE}) || self.models.{resource}.settings.{RATE} == null",
                f"violationRate and models.{resource}.settings.{RATE} say the same twice; leave one of them out",
                by_admission=True,
            )
            for resource in resources
        ),
    )


class ModelSpec(Part):
    """A model of the registry (GET /v1/predictors lists them) and its settings."""

    name: ModelName = Field(description="of the model, as GET /v1/predictors lists them")
    settings: Annotated[
        dict[str, JsonValue],
        Field(
            default_factory=dict,
            description="see GET /v1/predictors/{name}",
        ),
    ]

    @field_validator("settings")
    @classmethod
    def _finite(cls, settings: dict[str, JsonValue]) -> dict[str, JsonValue]:
        json.dumps(settings, allow_nan=False)  # raises ValueError for a number that JSON cannot represent
        return settings


class ModelsSpec(Part):
    """The model of each resource."""

    cpu: ModelSpec | None = Field(None, description="model of CPU")
    memory: ModelSpec | None = Field(None, description="model of memory")


class RatesSpec(Part):
    """Accepted share of 24 h windows above the peak, by resource."""

    cpu: Rate | None = Field(None, description="of CPU")
    memory: Rate | None = Field(None, description="of memory")


class CadenceSpec(Part):
    """When windows are folded and predictions are published; see slackwater.prediction.domain.policy.Cadence."""

    histogram_update_interval_seconds: Interval | None = Field(
        None, description="how often windows are folded into histograms"
    )
    reporting_interval_seconds: Interval | None = Field(None, description="how often predictions are published")
    check_prediction_interval_seconds: Interval | None = Field(None, description="how often predictions are computed")
    resource_diff_threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = Field(
        None, description="a smaller change of a prediction is not published, as a share"
    )
    force_update_interval_seconds: Interval | None = Field(
        None, description="after so long a prediction is published though it has not changed"
    )

    def given(self) -> dict[str, float]:
        """Returns the fields of Cadence that this document sets."""
        values = {ours: getattr(self, theirs) for ours, theirs in _CADENCE.items()}
        return {name: value for name, value in values.items() if value is not None}


class PredictPolicySpec(Part):
    """Omitted (or null) fields follow the cluster's document; in that one, the service's settings.

    `violationRate` sets the models' `violation_rate`, for both resources or by resource.
    """

    RULES: ClassVar[tuple[CelRule, ...]] = _rate_rules()

    node_pool: Pool | None = Field(None, description="pool that it is for; absent: the one of the document's name")
    models: ModelsSpec | None = Field(None, description="models by resource")
    violation_rate: Rate | RatesSpec | None = Field(
        None, description="accepted share of 24 h windows above the peak, for both resources or by resource"
    )
    cadence: CadenceSpec | None = Field(None, description="when windows are folded and predictions are published")
    protect_lsr: bool | None = Field(None, alias="protectLSR", description="CPU of LSR pods is never reclaimable")

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        for resource in self.rates():
            choice = self._models().get(resource)
            if choice is not None and choice.settings.get(RATE) is not None:
                raise ValueError(
                    f"violationRate and models.{resource}.settings.{RATE} say the same twice; leave one of them out"
                )
        return self

    def rates(self) -> dict[str, float]:
        """Returns the rates that this document states, by resource."""
        rates = self.violation_rate
        by_resource = {"cpu": rates, "memory": rates} if not isinstance(rates, RatesSpec) else dict(rates)
        return {resource: rate for resource, rate in by_resource.items() if rate is not None}

    def _models(self) -> dict[str, ModelSpec]:
        return {} if self.models is None else {name: model for name, model in self.models if model is not None}

    def choices(self) -> dict[str, ModelChoice]:
        """Returns the models that this document selects, by resource."""
        return {resource: ModelChoice(model.name, model.settings) for resource, model in self._models().items()}


class EffectiveModel(Part):
    """A model in force; settings that are not listed have their default."""

    name: str = Field(description="of the model")
    settings: dict[str, JsonValue] = Field(description="those that differ from the defaults")


class EffectivePolicy(Part):
    """The policy that a document resolves to."""

    cpu: EffectiveModel = Field(description="model of CPU")
    memory: EffectiveModel = Field(description="model of memory")
    cadence: CadenceSpec = Field(description="when windows are folded and predictions are published")
    protect_lsr: bool = Field(alias="protectLSR", description="whether CPU of LSR pods is never reclaimable")

    @classmethod
    def of(cls, policy: PoolPolicy) -> EffectivePolicy:
        cpu, memory = (
            EffectiveModel(name=choice.name, settings=dict(choice.settings)) for choice in (policy.cpu, policy.memory)
        )
        cadence = CadenceSpec(**{theirs: getattr(policy.cadence, ours) for ours, theirs in _CADENCE.items()})
        return cls(cpu=cpu, memory=memory, cadence=cadence, protect_lsr=policy.protect_lsr)


class PredictPolicyStatus(Part):
    """Set by the server. `problem` says why the stored generation is not followed; `observedGeneration` is then the
    last usable one, which is still in force.
    """

    observed_generation: int = Field(0, description="the generation in force")
    effective: EffectivePolicy | None = Field(None, description="what the document comes to")
    problem: str = Field("", description="why the stored generation is not followed")


class PredictPolicy(Resource):
    """One document: `default` for the cluster, any other for the pool `spec.nodePool` (default: the document's
    name).
    """

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            f"self.metadata.name != '{CLUSTER}' || !has(self.spec.nodePool)",
            f"the document {CLUSTER} is for every pool; name one for a pool otherwise",
            "spec.nodePool",
        ),
    )

    kind: Literal["PredictPolicy"] = "PredictPolicy"
    spec: PredictPolicySpec
    status: PredictPolicyStatus | None = Field(None, description="Set by the server, ignored in what is applied.")

    @model_validator(mode="after")
    def _cluster_has_no_pool(self) -> Self:
        if self.metadata.name == CLUSTER and self.spec.node_pool is not None:
            raise ValueError(f"spec.nodePool: the document {CLUSTER} is for every pool; name one for a pool otherwise")
        return self

    @property
    def pool(self) -> str | None:
        """Returns the pool that the document is for, None for the cluster."""
        return None if self.metadata.name == CLUSTER else self.spec.node_pool or self.metadata.name

    def wish(self) -> PolicyOverrides:
        """Returns the document in the domain's type."""
        return PolicyOverrides(
            name=self.metadata.name,
            generation=self.metadata.generation,
            pool=self.pool,
            models=self.spec.choices(),
            rates=self.spec.rates(),
            cadence={} if self.spec.cadence is None else self.spec.cadence.given(),
            protect_lsr=self.spec.protect_lsr,
        )

    def stored(self) -> dict[str, Any]:
        """Returns the document in stored form: the given fields, without status."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"status"})

    def with_status(self, status: PredictPolicyStatus) -> PredictPolicy:
        return self.model_copy(update={"status": status})


def first_document(policy: PoolPolicy) -> PredictPolicy:
    """Returns the initial document of the cluster, with all fields, so that the settings can be read."""
    effective = EffectivePolicy.of(policy)
    models = ModelsSpec(cpu=ModelSpec(**dict(effective.cpu)), memory=ModelSpec(**dict(effective.memory)))
    spec = PredictPolicySpec(models=models, cadence=effective.cadence, protect_lsr=policy.protect_lsr)
    return PredictPolicy(metadata=Metadata(name=CLUSTER, generation=1, changed_by=BY_SETTINGS), spec=spec)
