"""The scenes of the demo in the order in which a run shows them."""

from __future__ import annotations

from typing import Any, Final

from slackwater.demo.scenes.cache import CACHE
from slackwater.demo.scenes.cpu import CPU
from slackwater.demo.scenes.lend import LEND
from slackwater.demo.scenes.memory import MEMORY
from slackwater.demo.scenes.moves import MOVES
from slackwater.demo.scenes.policies import POLICIES
from slackwater.demo.scenes.quotas import QUOTAS
from slackwater.demo.scenes.scene import DemoScene

SCENES: Final[tuple[DemoScene[Any], ...]] = (LEND, MEMORY, CACHE, CPU, QUOTAS, POLICIES, MOVES)
ALL: Final = "all"


def chosen(name: str) -> list[DemoScene[Any]]:
    """Returns the scene of this name, or for `all` every scene that is not optional."""
    return [scene for scene in SCENES if scene.name == name or (name == ALL and not scene.optional)]
