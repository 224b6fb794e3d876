"""What a kind adds to the common behaviour of resources. Every method has a default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from slackwater.resources.metadata import Resource

if TYPE_CHECKING:
    from slackwater.resources.in_force import InForce
    from slackwater.resources.store import StoredResource

R = TypeVar("R", bound=Resource)
V = TypeVar("V")
"""What a document comes to: what a service follows of it."""


class Hooks(Generic[R, V]):
    """R is the model of a document, V what it comes to (by default the document itself)."""

    def first(self) -> R | None:
        """The parent document that the service's settings make; it is kept while no other author has written one."""
        return None

    def validate(self, document: R) -> None:
        """Refuse a document that is to be stored, beyond its model. Raises InvalidInput."""

    def resolve(self, document: R, parent: V | None) -> V:
        """What a document comes to on top of its parent (None: it is the parent, or there is none).

        Raises InvalidInput, Misconfigured if it cannot be used; the last good generation then stays in force.
        """
        return cast("V", document)

    def accepted(self, value: V, row: StoredResource) -> V:
        """A value with what only its row says of it, such as when it was stored."""
        return value

    def partial(self, row: StoredResource) -> tuple[R, V] | None:
        """The usable part of a document that cannot be used and has no last good generation; None: nothing."""
        return None

    def stand_in(self, row: StoredResource, found: InForce[R, V]) -> R | None:
        """What to show in place of a document that cannot be read; None: a list leaves it out, a read fails."""
        return None

    async def with_status(self, documents: Sequence[R], found: InForce[R, V]) -> Sequence[R]:
        """Documents with their status. Raises Unavailable."""
        return documents

    async def preview(self, now: InForce[R, V], would: InForce[R, V], arguments: Any) -> Any:
        """What the kind's preview shows of a change that is only tried; None: nothing. Raises Unavailable."""
        return None
