"""The Service protocol: what a composition root returns and a supervisor runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:  # an agent must not pay for FastAPI
    import grpc.aio
    from fastapi import APIRouter

    from slackwater.runtime.ownership import MemberView
    from slackwater.runtime.roles import Needed


@dataclass(frozen=True, slots=True)
class Check:
    """One line of /readyz: the name of the check, its result and its detail. With `warns` it passes, and needs an
    operator before it fails.
    """

    name: str
    ok: bool
    detail: str = ""
    warns: bool = False


class Service(Protocol):
    """A running part. `run` works until it is cancelled and then stops in order: none of its tasks
    survives.
    """

    @property
    def name(self) -> str:
        """Returns `ingestion`, `prediction`, …: also its schema, its role and its consumer
        prefix.
        """
        ...

    async def run(self, started: Callable[[], None]) -> None:
        """Open everything, call `started()` once ready to work, work until cancelled, close everything."""
        ...

    async def checks(self) -> Sequence[Check]:
        """Returns readiness checks: dependencies and lag. Liveness needs none: it means that the
        event loop runs.
        """
        ...

    def routers(self) -> Sequence[APIRouter]:
        """Returns the service's HTTP routes, mounted under the process's server; often none."""
        ...


@dataclass(frozen=True, slots=True)
class RpcPart:
    """One gRPC service of a part: its full name, the role that each of its methods requires, and
    its registration.

    `add(server, leaving)`: `leaving` is set when the server stops; streams then end themselves, in
    order.
    """

    name: str
    roles: Mapping[str, Needed]
    add: Callable[[grpc.aio.Server, asyncio.Event], None]


@runtime_checkable
class SpeaksRpc(Protocol):
    """A service that is also served over gRPC. Loads grpc only on demand."""

    def rpc_parts(self) -> Sequence[RpcPart]: ...


@runtime_checkable
class Draining(Protocol):
    """A service that serves on for a while after it was asked to stop, because clients still come."""

    @property
    def drain_seconds(self) -> float:
        """For how long; 0 if there are no such clients."""
        ...


@runtime_checkable
class Sharded(Protocol):
    """A service whose replicas share its partitions."""

    def standing(self) -> MemberView | None:
        """Returns the ownership at the last heartbeat; None before the first, or when it is
        outdated.
        """
        ...
