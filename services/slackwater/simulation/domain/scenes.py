"""The demand of a node's pods for a period, and their usage under limits. Pure; CPU in milli-cores, memory in bytes.

Batch (tiers batch and free) are the pods that may be throttled or evicted, for the benefit of prod; the rest (system,
mid) is never acted on. Batch uses its demand up to its limits and prod gets the remaining room: CPU weights are not
modelled, so this is the worst case. The pressure of prod is 1 - usage / demand, as the planner reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.model.pods import Pod


@dataclass(frozen=True, slots=True)
class SceneNode:
    """The identity and labels of a node."""

    name: str
    pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodDemand:
    """The demand of a batch pod in one scene, with its own CPU limit (None: no limit)."""

    pod: Pod
    cpu_milli: int
    memory_bytes: int
    limit_milli: int | None = None

    @property
    def most_milli(self) -> int:
        """Its usage without other pods and without deferred work."""
        return self.cpu_milli if self.limit_milli is None else min(self.cpu_milli, self.limit_milli)


@dataclass(frozen=True, slots=True)
class UsageScene:
    """A node during a period of constant demand.

    room_milli      available to prod and batch together
    prod_milli      demand of prod
    rest_milli      usage outside prod and batch; below 0 if the pods report more than the node
    rest_bytes      all memory except that of `pods`
    mid_milli       part of the rest that mid uses
    pressure_known  False: the pressure of prod is unknown
    """

    capacity_milli: int
    capacity_bytes: int | None
    room_milli: int
    prod_milli: int
    rest_milli: int
    rest_bytes: int | None
    pods: Sequence[PodDemand]
    pressure_known: bool = True
    mid_milli: int = 0


@dataclass(frozen=True, slots=True)
class Present:
    """A running pod: its uid, the limit that ensurance set, and its demand including deferred work."""

    demand: PodDemand
    uid: str
    limit_milli: int | None
    cpu_milli: int


@dataclass(frozen=True, slots=True)
class Share:
    """The usage of one pod, and the further usage that only the limit of ensurance prevents."""

    present: Present
    used_milli: int
    held_milli: int


@dataclass(frozen=True, slots=True)
class Use:
    """The usage of all pods. `is_cut`: the demand of batch exceeds the whole room."""

    shares: Sequence[Share]
    node_milli: int
    node_bytes: int | None
    prod_milli: int
    lacked_milli: int
    batch_milli: int
    held_milli: int
    limited: int
    """Number of pods that ensurance limits."""
    is_cut: bool
    pressure: float | None


def use_of(scene: UsageScene, present: Sequence[Present]) -> Use:
    """Returns the usage in a scene (see the module docstring)."""
    asked = [_limited(pod) for pod in present]
    batch = sum(amount for amount, _ in asked)
    room = max(0, scene.room_milli)
    is_cut = batch > room
    if is_cut:
        asked = [(amount * room // batch, held) for amount, held in asked]
        batch = sum(amount for amount, _ in asked)
    prod = max(0, min(scene.prod_milli, room - batch))
    memory = scene.rest_bytes
    if memory is not None:
        memory += sum(pod.demand.memory_bytes for pod in present)
    return Use(
        shares=[Share(pod, amount, held) for pod, (amount, held) in zip(present, asked, strict=True)],
        node_milli=max(0, scene.rest_milli + prod + batch),
        node_bytes=memory,
        prod_milli=prod,
        lacked_milli=scene.prod_milli - prod,
        batch_milli=batch,
        held_milli=sum(held for _, held in asked),
        limited=sum(pod.limit_milli is not None for pod in present),
        is_cut=is_cut,
        pressure=_pressure(scene, prod),
    )


def _limited(present: Present) -> tuple[int, int]:
    """Returns the usage under all limits, and how much more regular work it would do without the limit of ensurance."""
    own = present.demand.limit_milli
    free = present.cpu_milli if own is None else min(present.cpu_milli, own)
    taken = free if present.limit_milli is None else min(free, present.limit_milli)
    return taken, max(0, present.demand.most_milli - taken)


def _pressure(scene: UsageScene, prod_milli: int) -> float | None:
    if not scene.pressure_known:
        return None
    return 1 - prod_milli / scene.prod_milli if scene.prod_milli > 0 else 0.0
