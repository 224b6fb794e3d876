"""The main job on a simulated fleet."""

from __future__ import annotations

from pathlib import Path

from slackwater.runtime.state import Endpoint


async def direct(endpoint: Endpoint, state_dir: Path, seconds: int | None) -> int:
    raise NotImplementedError
