"""What a node's pods wanted for a while, and what they get under limits. Pure; CPU in milli-cores, memory in bytes.

Batch (tiers batch and free) is whoever may be asked to give way; prod is who it is done for; the rest (system, mid) is
there and never touched. Batch takes what it may and wants, prod gets what that leaves of the room: the hardest batch
there is, for weights are not modelled. What prod lacks is its pressure, 1 - got / wanted, as the planner reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.model.pods import Pod


@dataclass(frozen=True, slots=True)
class SceneNode:
    """Who a node is."""

    name: str
    pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WantedUse:
    """A pod of batch in one scene: who it is, what it wants, and its own CPU limit (None: none)."""

    pod: Pod
    cpu_milli: int
    memory_bytes: int
    limit_milli: int | None = None

    @property
    def most_milli(self) -> int:
        """What it would use if nobody else were there and nothing were made up for."""
        return self.cpu_milli if self.limit_milli is None else min(self.cpu_milli, self.limit_milli)


@dataclass(frozen=True, slots=True)
class UsageScene:
    """A node as long as nobody wants anything else.

    room_milli      what prod and batch can have together
    prod_milli      what prod wants
    rest_milli      what nobody who is asked or helped uses; below 0 where the pods say more than the node
    rest_bytes      all memory but that of `pods`
    mid_milli       what mid uses of the rest
    pressure_known  False: nothing is known of how prod fared, so it has no pressure
    """

    capacity_milli: int
    capacity_bytes: int | None
    room_milli: int
    prod_milli: int
    rest_milli: int
    rest_bytes: int | None
    pods: Sequence[WantedUse]
    pressure_known: bool = True
    mid_milli: int = 0


@dataclass(frozen=True, slots=True)
class Present:
    """A pod that is there: under which uid, the limit of ours on it, and what it wants, later work included."""

    wanted: WantedUse
    uid: str
    limit_milli: int | None
    cpu_milli: int


@dataclass(frozen=True, slots=True)
class Share:
    """What became of one pod: what it uses, and what only a limit of ours keeps it from using."""

    present: Present
    used_milli: int
    held_milli: int


@dataclass(frozen=True, slots=True)
class Use:
    """What became of everybody. `is_cut`: batch wanted more than the whole room."""

    shares: Sequence[Share]
    node_milli: int
    node_bytes: int | None
    prod_milli: int
    lacked_milli: int
    batch_milli: int
    held_milli: int
    limited: int
    """How many pods have a limit of ours."""
    is_cut: bool
    pressure: float | None


def use_of(scene: UsageScene, present: Sequence[Present]) -> Use:
    """See the module's docstring."""
    asked = [_asked(one) for one in present]
    batch = sum(amount for amount, _ in asked)
    room = max(0, scene.room_milli)
    is_cut = batch > room
    if is_cut:
        asked = [(amount * room // batch, held) for amount, held in asked]
        batch = sum(amount for amount, _ in asked)
    prod = max(0, min(scene.prod_milli, room - batch))
    memory = scene.rest_bytes
    if memory is not None:
        memory += sum(one.wanted.memory_bytes for one in present)
    return Use(
        shares=[Share(one, amount, held) for one, (amount, held) in zip(present, asked, strict=True)],
        node_milli=max(0, scene.rest_milli + prod + batch),
        node_bytes=memory,
        prod_milli=prod,
        lacked_milli=scene.prod_milli - prod,
        batch_milli=batch,
        held_milli=sum(held for _, held in asked),
        limited=sum(one.limit_milli is not None for one in present),
        is_cut=is_cut,
        pressure=_pressure(scene, prod),
    )


def _asked(one: Present) -> tuple[int, int]:
    """What it takes under all limits, and how much more of its usual work it would do without that of ours."""
    own = one.wanted.limit_milli
    free = one.cpu_milli if own is None else min(one.cpu_milli, own)
    taken = free if one.limit_milli is None else min(free, one.limit_milli)
    return taken, max(0, one.wanted.most_milli - taken)


def _pressure(scene: UsageScene, prod_milli: int) -> float | None:
    if not scene.pressure_known:
        return None
    return 1 - prod_milli / scene.prod_milli if scene.prod_milli > 0 else 0.0
