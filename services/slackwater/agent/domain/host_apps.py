"""Host applications: programs of the machine outside of pods, which its operator wants counted apart, each with a tier.

They are measured like pods and otherwise left alone: nothing here is ever throttled, evicted or written to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.model.tiers import HIGH_TIERS, QoSClass, Tier, default_qos

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_OURS = "slackwater-"
"""How the cgroups of pods begin (see adapters/linux/layout)."""


@dataclass(frozen=True, slots=True)
class HostApplication:
    """`cgroup` is below the mount point of each hierarchy, without a slash at either end."""

    name: str
    tier: Tier
    cgroup: str


def host_application(name: str, cgroup: str, tier: Tier | None = None, qos: QoSClass | None = None) -> HostApplication:
    """Builds a host application. A missing tier follows from the QoS class and is prod without one, because usage of an
    unknown tier must not be lent. Raises ValueError with the allowed values."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"name {name!r}: letters, digits, '.', '_' and '-' are allowed, at most 63, ends alphanumeric")
    chosen = tier or _tier_of(qos)
    if qos is not None and (chosen in HIGH_TIERS) is (qos is QoSClass.BE):
        raise ValueError(
            f"{name}: tier {chosen} and qos {qos} contradict each other; leave qos out, or use {default_qos(chosen)}"
        )
    return HostApplication(name, chosen, _plain(name, cgroup))


def refuse_overlaps(apps: Sequence[HostApplication]) -> None:
    """Raises ValueError where something would be counted twice."""
    for place, app in enumerate(apps):
        for other in apps[:place]:
            if app.name == other.name:
                raise ValueError(f"name {app.name!r} is there twice; every host application needs a name of its own")
            if f"{app.cgroup}/".startswith(f"{other.cgroup}/") or f"{other.cgroup}/".startswith(f"{app.cgroup}/"):
                raise ValueError(
                    f"{app.name} ({app.cgroup}) and {other.name} ({other.cgroup}) contain one another and would be "
                    "counted twice; name only one of them, or cgroups beside each other"
                )


def _tier_of(qos: QoSClass | None) -> Tier:
    return Tier.BATCH if qos is QoSClass.BE else Tier.PROD


def _plain(name: str, cgroup: str) -> str:
    parts = cgroup.strip("/").split("/")
    if not cgroup.strip("/") or not all(part.strip() and part.isprintable() for part in parts) or ".." in parts:
        raise ValueError(
            f"{name}: cgroup {cgroup!r}: a path below the mount point of the cgroup hierarchy is allowed, like "
            "system.slice/nginx.service (not the root itself, no '..', no empty part)"
        )
    if "." in parts:
        raise ValueError(f"{name}: cgroup {cgroup!r}: leave out the part '.'")
    if parts[0].startswith(_OURS):
        raise ValueError(f"{name}: cgroup {cgroup!r} belongs to pods, which are counted already; name another one")
    return "/".join(parts)
