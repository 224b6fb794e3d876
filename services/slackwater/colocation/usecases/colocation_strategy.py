"""The ColocationStrategy document: the operator's settings of offers, in Kubernetes' form.

`default` is for the whole cluster. Every other document is for the nodes that its selector selects (or of its pool),
and its omitted fields follow the cluster's. The fields are those of `domain.document`, and the few defined here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from slackwater.offers.document import FIELDS, Spec, field_problems
from slackwater.offers.strategy_layers import POOL_LABEL
from slackwater.resources.cel import CelRule
from slackwater.resources.metadata import Metadata, Part, Resource
from slackwater.resources.names import BY_SETTINGS, CLUSTER
from slackwater.resources.selectors import LabelExpression, LabelSelector, Selector

Key = Annotated[str, StringConstraints(min_length=1, max_length=317, pattern=r"^[^\x00-\x1f\x7f]+$")]
Value = Annotated[str, StringConstraints(max_length=253, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Expression(LabelExpression):
    """One condition on a label. `values` are required by In and NotIn and not allowed otherwise."""

    key: Key = Field(description="label")
    values: Annotated[tuple[Value, ...], Field(max_length=100)] = Field((), description="of In and NotIn")


class NodeSelector(LabelSelector):
    """Labels and expressions, all of which must hold; an empty selector selects every node. The node's pool is visible
    as the label `slackwater.io/node-pool`.
    """

    match_labels: Annotated[dict[Key, Value], Field(max_length=100)] = Field(
        default_factory=dict, description="labels and their values, all of which are there"
    )
    match_expressions: Annotated[tuple[Expression, ...], Field(max_length=100)] = Field(
        (), description="conditions, all of which hold"
    )


class ColocationStrategySpec(Part):
    """Omitted (or null) fields follow the cluster's document; in that one, the service's settings."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!(has(self.nodePool) && has(self.nodeSelector))",
            "nodePool and nodeSelector both say which nodes; leave one of them out",
        ),
    )

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=False)

    node_pool: Annotated[Value, StringConstraints(min_length=1)] | None = Field(
        None, description="short for a selector on slackwater.io/node-pool"
    )
    node_selector: NodeSelector | None = Field(None, description="nodes with these labels")
    precedence: Annotated[int, Field(ge=-1000, le=1000)] | None = Field(
        None,
        description="the highest counts (default 0), of equals the first by name",
    )

    @model_validator(mode="after")
    def _fields_are_allowed(self) -> Self:
        if self.node_pool is not None and self.node_selector is not None:
            raise ValueError("nodePool and nodeSelector both say which nodes; leave one of them out")
        problems = field_problems(self.fields())
        if problems:
            fields = self.fields()
            raise ValidationError.from_exception_data(
                type(self).__name__,
                [
                    InitErrorDetails(
                        type=PydanticCustomError("not_allowed", "{message}", {"message": problem.message}),
                        loc=(problem.field or "",),
                        input=fields.get(problem.field or ""),
                    )
                    for problem in problems
                ],
            )
        return self

    def fields(self) -> Spec:
        """Returns the fields of `domain.document` that are set here."""
        return {name: value for name, value in (self.model_extra or {}).items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        schema["properties"] |= {name: _schema_of(name) for name in FIELDS}
        schema["additionalProperties"] = False
        return schema


def _schema_of(name: str) -> Mapping[str, Any]:
    spec_field = FIELDS[name]
    default = "" if spec_field.default is None else f"; default {default_text(spec_field.default)}"
    return {
        "anyOf": [dict(spec_field.schema), {"type": "null"}],
        "title": name,
        "description": spec_field.about + default,
    }


def default_text(value: Any) -> str:
    """Renders a default."""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, tuple) else str(value)


class Condition(Part):
    """A condition in Kubernetes' form. `Followed`: whether the stored generation is in force. `NodesFollow`: whether
    every selected node follows it as stored, or some have annotations or labels that cannot be used.
    """

    type: Literal["Followed", "NodesFollow"] = Field(description="of the condition")
    status: Literal["True", "False"] = Field(description="whether it holds")
    reason: str = Field(description="in one word")
    message: str = Field(description="in words")


class NodeProblem(Part):
    """A node whose own annotation or label cannot be used."""

    node: str = Field(description="name of the node")
    problem: str = Field(description="why its annotation or label cannot be used")


class ColocationStrategyStatus(Part):
    """Set by the server. `observedGeneration` is the generation in force, `effective` the resolved fields. `nodes`
    counts the nodes that follow the document, `nodesWithProblems` those with annotations or labels that cannot be used,
    and `problems` lists the first of these by name.
    """

    observed_generation: int = Field(0, description="the generation in force")
    effective: dict[str, Any] | None = Field(None, description="what the document comes to")
    nodes: int = Field(0, description="nodes that follow the document")
    nodes_with_problems: int = Field(0, description="nodes with annotations or labels that cannot be used")
    problems: tuple[NodeProblem, ...] = Field((), description="the first of these, by name")
    conditions: tuple[Condition, ...] = Field((), description="what holds of the document")


class ColocationStrategy(Resource):
    """One document: `default` for the cluster, any other for the nodes it selects (default: the pool of its name)."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            f"self.metadata.name != '{CLUSTER}' || !(has(self.spec.nodePool) || has(self.spec.nodeSelector)"
            " || has(self.spec.precedence))",
            f"the document {CLUSTER} is for every node; nodePool, nodeSelector and precedence are for others",
            "spec",
        ),
    )

    kind: Literal["ColocationStrategy"] = "ColocationStrategy"
    spec: ColocationStrategySpec
    status: ColocationStrategyStatus | None = Field(None, description="Set by the server, ignored in what is applied.")

    @model_validator(mode="after")
    def _cluster_selects_nobody(self) -> Self:
        chosen = (self.spec.node_pool, self.spec.node_selector, self.spec.precedence)
        if self.metadata.name == CLUSTER and any(selection is not None for selection in chosen):
            raise ValueError(
                f"spec: the document {CLUSTER} is for every node; nodePool, nodeSelector and precedence are for others"
            )
        return self

    @property
    def is_clusters(self) -> bool:
        return self.metadata.name == CLUSTER

    def selector(self) -> Selector | None:
        """Returns the selector of its nodes; None for the cluster's document."""
        if self.is_clusters:
            return None
        if self.spec.node_selector is not None:
            return self.spec.node_selector.selector
        return Selector({POOL_LABEL: self.spec.node_pool or self.metadata.name})

    def stored(self) -> dict[str, Any]:
        """Returns the document in stored form: the given fields, without status."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"status", "spec"})
        spec = self.spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        return {**document, "spec": spec}

    def with_status(self, status: ColocationStrategyStatus) -> ColocationStrategy:
        return self.model_copy(update={"status": status})


def nodes_of(document: ColocationStrategy) -> str:
    """Renders the nodes that a document is for."""
    if document.is_clusters:
        return "every node"
    selector = document.spec.node_selector
    if selector is None:
        return f"pool {document.spec.node_pool or document.metadata.name}"
    labels = [f"{key}={value}" for key, value in selector.match_labels.items()]
    others = [
        f"{expression.key} {expression.operator} {', '.join(expression.values)}".rstrip()
        for expression in selector.match_expressions
    ]
    return "; ".join([*labels, *others]) or "every node"


def first_document(base: Spec) -> ColocationStrategy:
    """Returns the initial document of the cluster from the settings. Fractions that a document cannot hold are omitted,
    and follow the settings.
    """
    usable = {name: value for name, value in base.items() if FIELDS[name].takes(value)}
    spec = ColocationStrategySpec.model_validate(usable)
    return ColocationStrategy(metadata=Metadata(name=CLUSTER, generation=1, changed_by=BY_SETTINGS), spec=spec)


def conditions_of(
    observed: int, problem: str, nodes: int, bad: int, problems: Sequence[NodeProblem]
) -> tuple[Condition, Condition]:
    """Returns the two conditions of a document."""
    in_force = f"keeps to generation {observed}: " if observed else "what of it can be used counts: "
    followed = Condition(
        type="Followed",
        status="False" if problem else "True",
        reason="KeepsLastGood" if problem else "AsStored",
        message=f"{in_force}{problem}" if problem else "",
    )
    named = ", ".join(problem.node for problem in problems)
    more = f" and {bad - len(problems)} more" if bad > len(problems) else ""
    summary = f"{bad} of {nodes} nodes have an annotation or label that cannot be used: {named}{more}"
    words = Condition(
        type="NodesFollow",
        status="False" if bad else "True",
        reason="InvalidNodeOverrides" if bad else "AllAsWritten",
        message=summary if bad else "",
    )
    return followed, words
