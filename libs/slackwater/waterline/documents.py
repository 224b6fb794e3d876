"""What all policy documents share: Kubernetes' shape, names, generations, and errors that name the field. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from slackwater.model.errors import InvalidInput

API_VERSION: Final = "slackwater.io/v1alpha1"

Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class Part(BaseModel):
    """A document or a part of one: frozen, camelCase outside, and an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    @classmethod
    def parse(cls, document: Any) -> Self:
        """Raises InvalidInput that names the first wrong field and says what is wrong with it."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InvalidInput(f"{field}: {first['msg']}; got {first['input']!r}", field=field) from None

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return self.model_dump(mode="json", by_alias=True)


class Metadata(Part):
    """`generation` rises with every change of the spec; 0 or absent in a document that is to be applied."""

    name: Label
    generation: Annotated[int, Field(ge=0)] = 0
    changed_by: str = ""
    """Who made this generation, as its token is named. Set by the server, ignored in what is applied."""

    def at(self, generation: int, by: str | None = None) -> Self:
        """The same of another generation, made by `by` if that is given."""
        return self.model_copy(update={"generation": generation} | ({} if by is None else {"changed_by": by}))
