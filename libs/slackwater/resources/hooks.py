"""What a kind adds to the common behaviour of resources, and the value that its hooks read: what is in force."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from slackwater.resources.metadata import Resource

if TYPE_CHECKING:
    from slackwater.resources.store import StoredResource

R = TypeVar("R", bound=Resource)
V = TypeVar("V")
"""What a document comes to: what a service follows of it."""


@dataclass(frozen=True, slots=True)
class InForce(Generic[R, V]):
    """All by name of the document.

    values       what each document comes to
    documents    the documents that the values are made of
    problems     why the stored generation of a document is not followed
    generations  the stored generations
    gone         the generations of deleted documents
    """

    values: Mapping[str, V] = field(default_factory=dict)
    documents: Mapping[str, R] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        """Rises with every change of any document."""
        return sum(self.generations.values()) + sum(self.gone.values())

    def has(self, row: StoredResource) -> bool:
        """Whether the document of this row, in its generation, is in force."""
        name = row.name
        return name in self.values and name not in self.problems and self.generations.get(name) == row.generation

    def is_same(self, other: InForce[R, V]) -> bool:
        """Whether both have the same effect."""
        return (self.values, self.problems, self.generations) == (other.values, other.problems, other.generations)


class Hooks(Generic[R, V]):
    """R is the model of a document, V what it comes to (by default the document itself). Every method has a default."""

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

    async def prepare(self) -> Any:
        """Returns what `validate_together` needs of the store, read before the change begins. Raises Unavailable."""
        return None

    def validate_together(
        self, changed: Collection[str], now: InForce[R, V], would: InForce[R, V], prepared: Any
    ) -> None:
        """Refuse documents that do not fit each other: `changed` are written or deleted, `would` is then in force.

        Raises InvalidInput, Conflict.
        """

    async def confirm(self, unit: Any, replaced: Sequence[StoredResource], would: InForce[R, V]) -> None:
        """Check a change once more in its transaction `unit` (slackwater.store.port.UnitOfWork), before it is saved,
        and write there what belongs to it. `replaced` are the present rows of what changes. Not called for a dry run.

        Raises InvalidInput, Conflict, Unavailable.
        """

    def notice(self, value: V) -> str:
        """Returns what the author of a document is to know, stored or tried, such as that it has no effect yet."""
        return ""

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

    async def made(self) -> Sequence[R]:
        """Documents that the service made by itself and that are not stored, with their status: shown beside the
        others. Raises Unavailable."""
        return ()

    async def withdraw(self, name: str, *, dry_run: bool) -> R | None:
        """Delete a document of `made`; returns it, None where none has this name. Raises Unavailable."""
        return None
