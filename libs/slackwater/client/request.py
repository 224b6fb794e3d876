"""The typed parts of a call: its path, its body and the model of its answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, cast
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from slackwater.client.answers import Reply
from slackwater.client.calls import T
from slackwater.model.errors import Misconfigured


class ApiObject(BaseModel):
    """An object of the API. Fields that only the server knows are kept, so that a newer server is no error; a document
    that is read, changed and put loses none of them.
    """

    model_config = ConfigDict(extra="allow", populate_by_name=True, defer_build=True, protected_namespaces=())

    _etag: str = ""

    @property
    def etag(self) -> str:
        """The ETag with which the server sent this document, for `if_match`; empty without one."""
        return self._etag


def path_of(path: str, names: Mapping[str, str]) -> str:
    """The path with its names, each a single segment."""
    return path.format(**{name: quote(value, safe="") for name, value in names.items()})


def body_of(body: Any) -> Any:
    """The JSON of a body: of a model the fields that were set."""
    return body.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(body, BaseModel) else body


@cache
def _adapter(model: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter[Any](cast(Any, model))


def parsed_as(model: type[T], answer: Any) -> T:
    """The answer as its model. Raises Misconfigured where a field is not as this version knows it."""
    etag = answer.etag if isinstance(answer, Reply) else ""
    body = answer.body if isinstance(answer, Reply) else answer
    try:
        value: T = _adapter(cast(Hashable, model)).validate_python(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Misconfigured(
            f"the server's answer is not as this client knows it: {place}: {first['msg']}; use the version of the"
            " server (GET /version shows it)"
        ) from None
    if etag and isinstance(value, ApiObject):
        value._etag = etag
    return value
