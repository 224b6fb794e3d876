"""The Python client of the API: `Client` and `AsyncClient`, typed, without the servers' packages.

    from slackwater.client import Client

    with Client("http://127.0.0.1:8460") as client:
        for node in client.list_nodes():
            print(node.name, node.liveness)

Methods are the operations of the API (see /docs of a server). Errors are those of `slackwater.model.errors`, with the
`code` of the problem document. The command line uses the same client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slackwater.client.asynchronous import AsyncClient
    from slackwater.client.event_stream import WatchedEvent
    from slackwater.client.synchronous import Client
    from slackwater.model.errors import (
        Conflict,
        InvalidInput,
        Misconfigured,
        NotFound,
        SlackwaterError,
        Unavailable,
    )

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "InvalidInput",
    "Misconfigured",
    "NotFound",
    "SlackwaterError",
    "Unavailable",
    "WatchedEvent",
]

_MODULES = {"AsyncClient": "asynchronous", "Client": "synchronous", "WatchedEvent": "event_stream"}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """The public names, loaded on first use: the command line needs the transport and none of the models."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{_MODULES[name]}" if name in _MODULES else "slackwater.model.errors"
    return getattr(import_module(module), name)
