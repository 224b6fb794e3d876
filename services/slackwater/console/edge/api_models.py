"""Envelopes of the API: lists and pages. What they hold are the read model's own shapes."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, Field

from slackwater.console.domain.views import DecisionSummary

T = TypeVar("T")


class Listing(BaseModel, Generic[T]):
    """All that was asked for."""

    items: list[T]


class DecisionPage(BaseModel):
    """One page, newest first. `next_cursor` is null on the last page."""

    items: list[DecisionSummary]
    next_cursor: str | None = Field(description="Hand this back as `cursor` for the next page.")
