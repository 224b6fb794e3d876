"""The envelope of lists. The items are the read model's own shapes."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class Listing(BaseModel, Generic[T]):
    """One page of a list."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    items: list[T]
    continue_: str | None = Field(
        default=None,
        alias="continue",
        description="Pass this as `continue` to get the next page; null on the last page.",
    )
