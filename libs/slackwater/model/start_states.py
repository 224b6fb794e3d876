"""How far the start of a pod by request is."""

from __future__ import annotations

from enum import StrEnum


class StartState(StrEnum):
    """Of a requested start. Only the first is not final."""

    STARTING = "starting"
    """Begun; the pod is not ready yet."""
    READY = "ready"
    """Its check has succeeded once. Whether it still runs is in the reports of usage."""
    FAILED = "failed"
    """It ended, or was not ready in time and was ended."""
    REFUSED = "refused"
    EXPIRED = "expired"
    """The deadline had passed before it could begin."""
