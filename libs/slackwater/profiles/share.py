"""The share of workloads that a profile changes: the same draw in Python and in CEL, from what a pod always has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DRAWS: Final = 10_007
"""Values of a draw; prime, so that weights keep them apart."""
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz-."
_WEIGHTS: Final = (
    *(7919, 6271, 9001, 3571, 8263, 5417, 2741, 9587),
    *(4409, 6857, 1823, 9293, 3037, 7561, 5813, 8731),
)


def workload_key(pod: Mapping[str, Any]) -> str:
    """What all pods of one workload share: the uid of the controller, without one the pod's name."""
    metadata = pod.get("metadata") or {}
    owners = [owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    return str(owners[0] if owners else metadata.get("name") or metadata.get("generateName") or "")


def draw(key: str) -> int:
    """0..DRAWS - 1, by the characters and their places. CEL has no hash function, so that it is a weighted sum."""
    numbers = ((_ALPHABET.find(letter) + 2) * _WEIGHTS[place % len(_WEIGHTS)] for place, letter in enumerate(key))
    return sum(numbers) % DRAWS


def is_drawn(key: str, percent: int) -> bool:
    """Whether a workload is in the share: of 0 none, of 100 every one."""
    return draw(key) * 100 < percent * DRAWS


def drawn_cel(percent: int) -> str:
    """CEL for `is_drawn(workload_key(object), percent)`."""
    if percent in (0, 100):
        return "true" if percent else "false"
    owners = "object.metadata.ownerReferences"
    controller = "owner, has(owner.controller) && owner.controller"
    key = (
        f"has({owners}) && {owners}.exists({controller}) ? {owners}.filter({controller})[0].uid"
        " : has(object.metadata.name) && object.metadata.name != '' ? object.metadata.name"
        " : has(object.metadata.generateName) ? object.metadata.generateName : ''"
    )
    number = f"('{_ALPHABET}'.indexOf(key.charAt(place)) + 2) * {list(_WEIGHTS)}[place % {len(_WEIGHTS)}]"
    drawn = f"lists.range(size(key)).map(place, {number}).sum() % {DRAWS}"
    return f"[{key}].all(key, ({drawn}) * 100 < {percent * DRAWS})"
