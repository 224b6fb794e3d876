"""Lines of /readyz."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.kind_follower import KindFollower
from slackwater.apiserver.rights import effects_without
from slackwater.model.plurals import counted
from slackwater.runtime.service import Check

SHOWN = 3
SHOWN_SKEW_SECONDS = 5.0


def inventory_check(inventory: Inventory, followers: Sequence[KindFollower[Any]]) -> Check:
    """Whether every kind was listed; an interruption later is no reason to be unready, because it heals."""
    errors = {follower.kind.plural: follower.error for follower in followers if follower.error}
    counts = inventory.counts()
    detail = f"{counted(counts['nodes'], 'node')}, {counted(counts['pods'], 'pod')}"
    if unsynced := inventory.unsynced():
        detail = f"not listed yet: {', '.join(unsynced)}"
    if errors:
        plural, error = next(iter(errors.items()))
        detail += f"; {plural}: {error}"
    return Check("kubernetes-inventory", inventory.synced, detail)


def refused_check(name: str, refusals: Mapping[str, str]) -> Check:
    """Nodes whose last write was refused: shown, and no reason to be unready."""
    shown = "; ".join(f"{node}: {why}" for node, why in sorted(refusals.items())[:SHOWN])
    return Check(name, True, f"refused for {counted(len(refusals), 'node')}: {shown}" if shown else "")


def rights_check(missing: Sequence[str]) -> Check:
    """Rights that the account lacks and what stops without them: shown, and no reason to be unready."""
    effects = "; ".join(effects_without(missing))
    shown = f"missing rights: {effects}; the chart of this version grants them" if missing else ""
    return Check("kubernetes-rights", True, shown)


def clock_check(skew_seconds: float | None) -> Check:
    """Whether the API server's clock differs: shown, and no reason to be unready."""
    if skew_seconds is None or abs(skew_seconds) < SHOWN_SKEW_SECONDS:
        return Check("kubernetes-clock", True, "")
    side = "ahead of" if skew_seconds > 0 else "behind"
    detail = (
        f"the API server's clock is {abs(skew_seconds):.0f} s {side} this host's; leases and deadlines go by the host's"
    )
    return Check("kubernetes-clock", True, detail)


class PolicyOfProfiles(Protocol):
    """The part of slackwater.kubernetes.usecases.apply_profiles that is shown."""

    @property
    def refusal(self) -> str: ...


def documents_check(
    readers: Sequence[KindFollower[Any]],
    refusals: Mapping[str, str],
    unwritten: Mapping[str, str],
    profiles: PolicyOfProfiles,
) -> Check:
    """Custom resources that are not read or followed, or whose status is not written: no reason to be unready."""
    problems = [f"{reader.kind.plural}: {reader.error}" for reader in readers if reader.error]
    problems += [f"{key}: {why}" for key, why in sorted(refusals.items())]
    problems += [f"status of {plural}: {why}" for plural, why in sorted(unwritten.items())]
    problems += [f"policy of profiles: {profiles.refusal}"] if profiles.refusal else []
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return Check("kubernetes-documents", True, "; ".join(problems[:SHOWN]) + more)
