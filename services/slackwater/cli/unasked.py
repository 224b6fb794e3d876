"""Every service built as `up` builds it, on servers that are never asked: what can be read off the code alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slackwater.agent.edge.late_bus import LateBus
from slackwater.cli.composition import SHARED
from slackwater.cli.hosting import Databases
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Service


def unasked_services() -> Sequence[Service]:
    """For their routes and metrics. Opens nothing: databases and bus connect on first use."""
    nowhere = Databases({part.name: "postgresql://127.0.0.1/none" for part in SHARED})
    platform = Platform(LateBus(), SystemClock(), nowhere.of, Path())
    return [part.build(platform) for part in SHARED]
