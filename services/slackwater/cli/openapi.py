"""`slackwater openapi`: the description of the API, made from the code without any server or database."""

from __future__ import annotations

from typing import Any, NoReturn


def document() -> dict[str, Any]:
    """The OpenAPI document of a process that runs every service: built as `up` builds them, on servers never asked.

    Nothing is opened: databases and bus connect on first use. The same code gives the same document.
    """
    from pathlib import Path

    from slackwater.agent.edge.late_bus import LateBus
    from slackwater.cli.composition import SHARED
    from slackwater.cli.hosting import Databases
    from slackwater.model.time import SystemClock
    from slackwater.runtime.http import build_app
    from slackwater.runtime.platform import Platform
    from slackwater.runtime.settings import HttpSettings

    async def never_asked() -> NoReturn:
        raise AssertionError("the description is made without running anything")

    nowhere = Databases({part.name: "postgresql://127.0.0.1/none" for part in SHARED})
    platform = Platform(LateBus(), SystemClock(), nowhere.of, Path())
    routers = [router for part in SHARED for router in part.build(platform).routers()]
    found: dict[str, Any] = build_app(routers, never_asked, HttpSettings(host="127.0.0.1", port=0)).openapi()
    found["info"]["version"] = "v1"  # of the API; that of the distribution is known only where one is installed
    return found


def command() -> None:
    """Print the OpenAPI document of this version."""
    from slackwater.cli.output import Format, print_object

    print_object(document(), Format.JSON)
