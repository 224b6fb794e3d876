"""The scenes of the demo in the order in which a run shows them."""

from __future__ import annotations

from typing import Any, Final

from slackwater.demo.scene import DemoScene
from slackwater.demo.scenes.cache import CACHE
from slackwater.demo.scenes.cpu import CPU
from slackwater.demo.scenes.cpus import CPUS
from slackwater.demo.scenes.fleet import FLEET
from slackwater.demo.scenes.lend import LEND
from slackwater.demo.scenes.memory import MEMORY
from slackwater.demo.scenes.moves import MOVES
from slackwater.demo.scenes.quotas import QUOTAS

SCENES: Final[tuple[DemoScene[Any], ...]] = (LEND, MEMORY, CACHE, CPU, QUOTAS, MOVES, CPUS)
ALL: Final = "all"


def chosen(name: str, driver: str = "linux") -> list[DemoScene[Any]]:
    """Returns the scene of this name, or for `all` every scene that is not optional; on simulated machines those of
    this driver follow, because the others cannot be shown there."""
    scenes = [scene for scene in SCENES if scene.name == name or (name == ALL and not scene.is_optional)]
    return [*scenes, *(scene for scene in (FLEET,) if scene.driver == driver)]
