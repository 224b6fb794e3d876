"""The envelope of lists. What it holds are the read model's own shapes."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class Listing(BaseModel, Generic[T]):
    """One page of what was asked for."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    items: list[T]
    continue_: str | None = Field(
        default=None, alias="continue", description="Hand this back as `continue` for the next page; null on the last."
    )
