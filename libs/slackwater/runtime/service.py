"""The Service protocol: what a composition root returns and a supervisor runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:  # an agent must not pay for FastAPI
    import grpc.aio
    from fastapi import APIRouter

    from slackwater.runtime.ownership import Standing
    from slackwater.runtime.roles import Needed


@dataclass(frozen=True, slots=True)
class Check:
    """One line of /readyz: what was looked at, whether it is well, and what it said."""

    name: str
    ok: bool
    detail: str = ""


class Service(Protocol):
    """A running part. `run` works until it is cancelled and then ends in order: no task of it survives."""

    @property
    def name(self) -> str:
        """`ingestion`, `prediction`, …: also its schema, its role and its consumer prefix."""
        ...

    async def run(self, started: Callable[[], None]) -> None:
        """Open everything, call `started()` once ready to work, work until cancelled, close everything."""
        ...

    async def checks(self) -> Sequence[Check]:
        """Readiness: dependencies and lag. Liveness is that the loop turns, and needs no check."""
        ...

    def routers(self) -> Sequence[APIRouter]:
        """HTTP routes of this service, mounted under the one server of the process; often none."""
        ...


@dataclass(frozen=True, slots=True)
class RpcPart:
    """One gRPC service of a part: its full name, the role that each of its methods needs, and how it is registered.

    `add(server, leaving)`: `leaving` is set when the server stops; streams end themselves then, in order.
    """

    name: str
    roles: Mapping[str, Needed]
    add: Callable[[grpc.aio.Server, asyncio.Event], None]


@runtime_checkable
class SpeaksRpc(Protocol):
    """A service that can also be reached over gRPC. Loads grpc only when it is asked."""

    def rpc_parts(self) -> Sequence[RpcPart]: ...


@runtime_checkable
class Sharded(Protocol):
    """A service whose replicas share its partitions."""

    def standing(self) -> Standing | None:
        """Who owned what at our last heartbeat; None before the first, or when it is too old to be told."""
        ...
