"""What a pod's labels and annotations say about its eviction. The peer's keys are read as aliases."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

POLICIES: Final = ("slackwater.io/eviction-policy", "koordinator.sh/eviction-policy")
PRIORITY: Final = ("slackwater.io/eviction-priority", "koordinator.sh/eviction-priority")
ENABLED: Final = ("slackwater.io/eviction-enabled", "koordinator.sh/eviction-enabled")
LABEL_PRIORITY: Final = ("slackwater.io/priority", "koordinator.sh/priority")
_WHOLE = re.compile(r"[-+]?\d{1,18}")


def first_of(marks: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    """The value under the first key that is there."""
    return next((marks[key] for key in keys if key in marks), None)


def eviction_policies(annotation: str | None) -> frozenset[str] | None:
    """Who may evict the pod: all (None) without the annotation, nobody if it is not a JSON list of names."""
    if annotation is None:
        return None
    try:
        names = json.loads(annotation)
    except ValueError:
        return frozenset()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return frozenset()
    return frozenset(names)


def allows(policies: frozenset[str] | None, policy: str) -> bool:
    return policies is None or policy in policies


def whole_number(text: str | None) -> int | None:
    """An integer, or None for anything else."""
    return int(text) if text is not None and _WHOLE.fullmatch(text.strip()) else None
