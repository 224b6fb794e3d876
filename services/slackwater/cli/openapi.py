"""`slackwater openapi`: prints the API's description, generated from the code without a server or database."""

from __future__ import annotations

from typing import Any, NoReturn


def document() -> dict[str, Any]:
    """The OpenAPI document of a process that runs every service. Deterministic for the same code."""
    from slackwater.cli.offline_services import offline_services
    from slackwater.runtime.description import openapi_of
    from slackwater.runtime.http import build_app
    from slackwater.runtime.settings import HttpSettings

    async def never_asked() -> NoReturn:
        raise AssertionError("generating the document must not run anything")

    routers = [router for service in offline_services() for router in service.routers()]
    description: dict[str, Any] = openapi_of(build_app(routers, never_asked, HttpSettings.local()))
    description["info"]["version"] = (
        "v1"  # version of the API; the distribution's version is known only if it is installed
    )
    return description


def command() -> None:
    """Print the OpenAPI document of this version."""
    from slackwater.cli.output import Format, print_object

    print_object(document(), Format.JSON)
