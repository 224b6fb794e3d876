"""What all resources share: Kubernetes' shape, names, generations, and errors that name the field. Pure."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, ErrorDetails

from slackwater.model.errors import InvalidInput
from slackwater.model.field_paths import as_written
from slackwater.model.known_fields import fields_at, unknown_field
from slackwater.model.reading_budget import ends_at_first_error
from slackwater.model.shown_values import shown
from slackwater.resources.cel import CelRule
from slackwater.resources.names import API_VERSION
from slackwater.resources.strict import refuse_another_kind

Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=317
    ),
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
AnnotationText = Annotated[str, StringConstraints(max_length=65_536)]
MOST_LABELS = 64


class Part(BaseModel):
    """A document or a part of one: frozen, and camelCase outside. Unknown fields are refused, and values of another
    type: where `true` stands for a number or a text, another field was meant.

    RULES      what validators of the model check across fields, for the API server of Kubernetes
    LIST_KEYS  lists of objects, by field, and the field in which no two of their items are equal
    """

    RULES: ClassVar[tuple[CelRule, ...]] = ()
    LIST_KEYS: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return ends_at_first_error(handler(source))

    @field_validator("*", mode="before")
    @classmethod
    def _as_it_looks(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_another_kind(cls, info.field_name or "", value)
        return value

    @classmethod
    def parse(cls, document: Any) -> Self:
        """Raises InvalidInput that names the first wrong field and says what is wrong with it."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise first_wrong(error, document, cls) from None

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return self.model_dump(mode="json", by_alias=True)


def first_wrong(error: ValidationError, document: Any, model: type[BaseModel] | None = None) -> InvalidInput:
    """The first error of pydantic, with the field as it stands in the document. Where several shapes are allowed, the
    first that is wrong in the shape that was meant: of the others pydantic says that the value is of another kind."""
    details = error.errors(include_url=False)
    first, single = details[0], len(_steps(details[0], document)) == len(details[0]["loc"])
    if not single and first["type"].endswith("_type"):
        first = next((detail for detail in details if not detail["type"].endswith("_type")), first)
    steps = _steps(first, document)
    field = ".".join(map(str, steps))
    if first["type"] == "extra_forbidden" and model is not None and steps:
        return InvalidInput(f"{field}: {unknown_field(str(steps[-1]), fields_at(model, steps[:-1]))}", field=field)
    return InvalidInput(f"{field}: {first['msg']}; got {shown(first['input'])}", field=field)


def _steps(error: ErrorDetails, document: Any) -> tuple[str | int, ...]:
    return as_written(error["loc"], document, is_missing=error["type"] == "missing")


class Metadata(Part):
    """`generation` rises with every change of the spec; 0 or absent in a document that is to be applied."""

    name: Label
    generation: Annotated[int, Field(ge=0)] = 0
    changed_by: str = ""
    """The author of this generation: the name of its token. Set by the server, ignored in applied documents."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=MOST_LABELS, exclude_if=operator.not_)] = {}
    annotations: Annotated[dict[LabelKey, AnnotationText], Field(max_length=MOST_LABELS, exclude_if=operator.not_)] = {}
    """Kept as they are given, for the tools that set them; nothing here reads them."""

    def at(self, generation: int, by: str | None = None) -> Self:
        """The same of another generation, made by `by` if that is given."""
        return self.model_copy(update={"generation": generation} | ({} if by is None else {"changed_by": by}))


class Resource(Part):
    """A document of a kind. Its model declares `kind` with its name as default, `spec`, and `status` if it has one."""

    api_version: Literal["slackwater.io/v1alpha1"] = API_VERSION
    kind: str
    metadata: Metadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @classmethod
    def parse_stored(cls, document: Any) -> Self:
        """A document that was stored: what was allowed then may be refused now. Raises InvalidInput."""
        return cls.parse(document)

    def stored(self) -> dict[str, Any]:
        """As it is kept: without status."""
        return self.model_dump(mode="json", by_alias=True, exclude={"status"})

    def document(self) -> dict[str, Any]:
        """As operators write it, for comparing and showing."""
        return self.stored()

    def changed_to(self, generation: int, author: str) -> Self:
        """As it is stored in a generation that `author` made."""
        without = {"status": None} if "status" in type(self).model_fields else {}
        return self.model_copy(update={"metadata": self.metadata.at(generation, author), **without})

    def with_generation(self, generation: int) -> Self:
        return self.model_copy(update={"metadata": self.metadata.at(generation)})
