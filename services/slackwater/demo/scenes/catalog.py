"""The scenes of the demo in the order in which a run shows them."""

from __future__ import annotations

from typing import Any, Final

from slackwater.demo.scenes.cache import CACHE
from slackwater.demo.scenes.memory import MEMORY
from slackwater.demo.scenes.scene import Scene

SCENES: Final[tuple[Scene[Any], ...]] = (MEMORY, CACHE)
