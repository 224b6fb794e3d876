"""What a writer of intents needs of its service."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from slackwater.events.envelope import Event
from slackwater.model.identifiers import ALL_PARTITIONS


class IntentState(Protocol):
    """What a service stores of one node: a dataclass. `generation` is that of its document; it grows with every change
    of the content. `version` counts writes of the row (0: not stored)."""

    @property
    def node(self) -> str: ...

    @property
    def generation(self) -> int: ...

    @property
    def version(self) -> int: ...


S = TypeVar("S", bound=IntentState)
U_co = TypeVar("U_co", bound="IntentUnit[Any]", covariant=True)


class IntentUnit(Protocol[S]):
    """One transaction over nodes and the events that go out with them."""

    async def publish(self, event: Event[Any]) -> None:
        """Put an event into the outbox."""
        ...

    async def nodes(self, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[S]:
        """Every node of these partitions, as last written. What cannot be read is left out, and in quarantine."""
        ...

    async def generation(self, node: str) -> int:
        """Of the document that was declared last for a node, whether its state can be read or not; 0 for none."""
        ...

    async def save(self, state: S, /, *, last: bool = False) -> S:
        """Write a node and return it with its new version. Raises Conflict if another writer changed it since. `last`,
        of one node, is quicker: it is written, or the conflict raised, when the unit is left."""
        ...

    async def remove(self, node: str, /) -> None:
        """Delete a node's state. A missing one is no error."""
        ...


class IntentStore(Protocol[U_co]):
    """Where the states are kept."""

    def unit_of_work(self) -> AbstractAsyncContextManager[U_co]:
        """Begin; commits on leaving. Raises Unavailable when the store does not answer."""
        ...


class Broadcast(Protocol):
    """What agents receive at once (slackwater.bus.port.Bus)."""

    async def broadcast(self, event: Event[Any]) -> None:
        """Stored nowhere and confirmed by no reader. Raises Unavailable."""
        ...


class LeaseMeter(Protocol):
    """What operators watch of the leases."""

    def renewed(self, result: str) -> None:
        """The leases of a partition: `told`; or not renewed, because of `outbox_behind` or `unavailable`."""
        ...
