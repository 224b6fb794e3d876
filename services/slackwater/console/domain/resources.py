"""Documents of all resource kinds as they were last published, and their generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

KEPT_GENERATIONS: Final = 20


@dataclass(frozen=True, slots=True)
class ResourceView:
    """One generation of one document; see events.resource_changed."""

    service: str
    kind: str
    name: str
    generation: int
    author: str
    changed_at: datetime
    deleted: bool
    document: Mapping[str, Any] | None
