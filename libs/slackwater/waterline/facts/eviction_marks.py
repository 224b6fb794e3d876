"""Reads eviction settings from a pod's labels and annotations. The peer's keys are read as
aliases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from slackwater.model.json_text import parse_json_text

POLICIES: Final = ("slackwater.io/eviction-policy", "koordinator.sh/eviction-policy")
PRIORITY: Final = ("slackwater.io/eviction-priority", "koordinator.sh/eviction-priority")
ENABLED: Final = ("slackwater.io/eviction-enabled", "koordinator.sh/eviction-enabled")
LABEL_PRIORITY: Final = ("slackwater.io/priority", "koordinator.sh/priority")
PROTECTED: Final = ("slackwater.io/protected",)
"""Set only by the agent: AGENT, STATIC or SYSTEM."""
AGENT: Final = "agent"
STATIC: Final = "static"
SYSTEM: Final = "system"
SOURCE: Final = ("kubernetes.io/config.source",)
"""The kubelet's source of a pod: one that does not come from the API server is static."""
STATIC_SOURCES: Final = frozenset({"file", "http"})
SYSTEM_CRITICAL: Final = 2_000_000_000
"""Lowest Kubernetes priority of system-critical pods."""
SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "slackwater-system"})
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_WHOLE = re.compile(r"[-+]?\d{1,18}")


def first_of(marks: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    """Returns the value of the first key that is set."""
    return next((marks[key] for key in keys if key in marks), None)


def eviction_policies(annotation: str | None) -> frozenset[str] | None:
    """Returns the policies that may evict the pod: all (None) without the annotation, else those of
    a JSON list or of a single name (a label cannot hold more); none if it is neither.
    """
    if annotation is None:
        return None
    if _NAME.fullmatch(annotation):
        return frozenset({annotation})
    try:
        names = parse_json_text(annotation)
    except ValueError:
        return frozenset()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return frozenset()
    return frozenset(names)


def allows(policies: frozenset[str] | None, policy: str) -> bool:
    return policies is None or policy in policies


def whole_number(text: str | None) -> int | None:
    """Returns an integer, or None for any other text."""
    return int(text) if text is not None and _WHOLE.fullmatch(text.strip()) else None


def truth(text: str | None) -> bool | None:
    """Returns the boolean of `true` and `false`; None for any other text."""
    return {"true": True, "false": False}.get(text or "")


def refusal(enabled: bool | None, policies: frozenset[str] | None, by: frozenset[str]) -> str | None:
    """Returns why a pod refuses eviction by all of these names, or None."""
    if enabled is False:
        return "it does not let itself be evicted"
    if policies is not None and not policies & by:
        return f"its eviction policy does not name {min(by)}"
    return None
