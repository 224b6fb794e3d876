"""The history of a resource as it is shown: each kept generation with what it changed. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from slackwater.resources.diff import FieldChange, changes
from slackwater.resources.store import PastGeneration


class ResourceGeneration(BaseModel):
    """One generation of a resource."""

    model_config = ConfigDict(frozen=True)

    generation: int
    changed_at: datetime
    author: str = Field(description="The author: the name of the token that made it; empty if unknown.")
    deleted: bool
    document: dict[str, Any] | None = Field(description="As it was stored; null if it was deleted.")
    changes: tuple[FieldChange, ...] | None = Field(
        description="How it differs from the generation before; null if that one is not kept."
    )


class ResourceHistory(BaseModel):
    """The kept generations of a resource, the newest first."""

    model_config = ConfigDict(frozen=True)

    items: tuple[ResourceGeneration, ...]


def history_of(kept: Sequence[PastGeneration]) -> ResourceHistory:
    """The history from the kept generations, the newest first."""
    return ResourceHistory(items=tuple(_described(past, before) for past, before in zip_longest(kept, kept[1:])))


def _described(past: PastGeneration, before: PastGeneration | None) -> ResourceGeneration:
    earlier: Mapping[str, Any] | None = {} if past.generation == 1 else None
    if before is not None and before.generation == past.generation - 1:
        earlier = before.document or {}
    return ResourceGeneration(
        generation=past.generation,
        changed_at=past.changed_at,
        author=past.author,
        deleted=past.document is None,
        document=None if past.document is None else dict(past.document),
        changes=None if earlier is None else changes(earlier, past.document or {}),
    )


def change_text(generation: Mapping[str, Any]) -> str:
    """What a generation (JSON of ResourceGeneration) changed, in words."""
    if generation["deleted"]:
        return "deleted"
    differing = generation["changes"]
    if differing is None:
        return "stored; the generation before is not kept"
    if any(change["field"] == "kind" for change in differing):
        return "created"
    return ", ".join(f"{c['field']}: {_value(c.get('before'))} -> {_value(c.get('after'))}" for c in differing) or "-"


def _value(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
