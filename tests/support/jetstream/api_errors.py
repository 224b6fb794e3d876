"""Errors of the JetStream API, with the codes of nats-server 2.15."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


class JetStreamError(Exception):
    """The server refuses a request."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def answer(self) -> dict[str, Any]:
        """Returns the `error` of the API's answer."""
        return {"code": self.code, "err_code": self.err_code, "description": self.description}


class Unmodelled(Exception):
    """The bus asks for what this server does not do. A test fails by it: the twin or its use is to be extended."""


def require_modelled(what: str, config: Mapping[str, Any], known: Mapping[str, Collection[Any] | None]) -> None:
    """Raises Unmodelled for a key that is not known, or a value that is not in its list (None: any value)."""
    for key, value in config.items():
        if key not in known:
            raise Unmodelled(f"{what}: {key}={value!r}")
        allowed = known[key]
        if allowed is not None and value is not None and value not in allowed:
            raise Unmodelled(f"{what}: {key}={value!r}, modelled are {sorted(map(str, allowed))}")


def stream_not_found() -> JetStreamError:
    return JetStreamError(404, 10059, "stream not found")


def consumer_not_found() -> JetStreamError:
    return JetStreamError(404, 10014, "consumer not found")


def message_not_found() -> JetStreamError:
    return JetStreamError(404, 10037, "no message found")


def stream_differs() -> JetStreamError:
    return JetStreamError(400, 10058, "stream name already in use with a different configuration")


def deliver_policy_differs() -> JetStreamError:
    return JetStreamError(500, 10012, "deliver policy can not be updated")


def stream_full() -> JetStreamError:
    return JetStreamError(503, 10077, "maximum bytes exceeded")


def message_too_large() -> JetStreamError:
    return JetStreamError(400, 10054, "message size exceeds maximum allowed")


def storage_differs() -> JetStreamError:
    return JetStreamError(500, 10052, "stream configuration update can not change storage type")


def insufficient_resources() -> JetStreamError:
    return JetStreamError(503, 10023, "insufficient resources")
