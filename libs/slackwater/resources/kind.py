"""The declaration of a resource kind. It holds names, not objects: a library imports no service."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from slackwater.model.errors import InvalidInput

if TYPE_CHECKING:
    from slackwater.resources.metadata import Resource


NO_VALUE: Final = "-"
"""The text of a cell without a value."""
Document = Mapping[str, Any]
"""A document as JSON."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of tables, as additionalPrinterColumns of a CustomResourceDefinition.

    path      where the value is, such as `.spec.nodePool`; or a function from the document as JSON to the text of the
              cell
    priority  above 0: only in wide tables
    of_status whether the cell depends on the status, which is not stored
    json_path the field that kubectl shows, if `path` is a function; empty: kubectl has no such column
    """

    title: str
    path: str | Callable[[Document], str]
    type: Literal["string", "integer", "number", "boolean"] = "string"
    priority: int = 0
    of_status: bool = False
    json_path: str = ""

    @property
    def is_stored(self) -> bool:
        """Whether the stored document has what the cell shows."""
        return not self.of_status and not (isinstance(self.path, str) and self.path.startswith(".status"))


NAME = Column("NAME", ".metadata.name")
GENERATION = Column("GENERATION", ".metadata.generation", "integer")
CHANGED_BY = Column("CHANGED-BY", ".metadata.changedBy", priority=1)


@dataclass(frozen=True, slots=True)
class Unique:
    """No two documents of a kind have the same value of this attribute of their model (None is no value)."""

    attribute: str
    noun: str
    field: str
    code: str


ONE_PER_POOL = Unique("pool", "pool", "spec.nodePool", "node_pool_taken")
GENERAL_CODES = {"not_found": "not_found", "needed": "conflict"}
"""Problem codes of kinds that were served before kinds were declared."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a dry run of a kind also answers: what Hooks.preview computes.

    field       its field in the answer
    model       `module:Class` of its JSON; the class method `of` makes it of what Hooks.preview returns
    parameters  `module:function` with the query parameters that Hooks.preview takes
    skipped_by  query parameter that, `false`, leaves it out; empty: it is cheap
    limited     whether the query parameter `limit` bounds its length
    """

    field: str
    model: str
    parameters: str
    skipped_by: str = ""
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource kind.

    about         one sentence for help and reference pages
    model         `module:Class` of a document, a slackwater.resources.metadata.Resource
    table         of the service's schema, if the kind has one of its own; others share a table
    parent        name of the document that is for the whole cluster: it is always there and cannot be deleted
    inherits      whether all others inherit from the parent what they leave out
    parent_model  model of the parent, if it is not `model`
    parent_remedy what to do instead of deleting it
    together      several documents can be stored in one request, all or none
    hooks         `module:Class` that is made without arguments, for a kind that the service's skeleton serves
    example       the spec of a valid document that is not the parent, for the reference page and the tests
    nulls         whether answers to changes have fields that are null, as the previews of some kinds need
    codes         problem codes that are not `NOUN_not_found` and `NOUN_needed`
    """

    name: str
    plural: str
    service: str
    model: str
    about: str
    columns: tuple[Column, ...]
    example: Mapping[str, Any] = field(hash=False)
    short: tuple[str, ...] = ()
    table: str = ""
    parent: str = ""
    inherits: bool = True
    parent_model: str = ""
    parent_remedy: str = "change it with PUT"
    unique: Unique | None = None
    hooks: str = ""
    together: bool = False
    preview: Preview | None = None
    nulls: bool = False
    codes: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def noun(self) -> str:
        """As messages call one document."""
        return self.name.lower()

    @property
    def operation_noun(self) -> str:
        """One document in operation ids: `node_qos` of NodeQOS."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    @property
    def operation_plural(self) -> str:
        """Several documents in operation ids: `node_qos_documents`, as both are one word."""
        noun = self.operation_noun
        if self.plural == self.noun:
            return f"{noun}_documents"
        return f"{noun[:-1]}ies" if self.plural.endswith("ies") and noun.endswith("y") else f"{noun}s"

    @property
    def path(self) -> str:
        """Of the list in the API."""
        return f"/v1/{self.plural}"

    def code(self, name: str) -> str:
        """The problem code for `not_found` or `needed` (the parent cannot be deleted)."""
        return self.codes.get(name, f"{self.noun}_{name}")

    @property
    def names(self) -> tuple[str, ...]:
        """What the command line accepts for this kind, the plural first."""
        return tuple(dict.fromkeys((self.plural, self.noun, *self.short)))

    def model_of(self, name: str = "") -> type[Resource]:
        """The model of a document of this name."""
        path = self.parent_model if self.parent_model and name == self.parent else self.model
        return loaded(path)  # type: ignore[no-any-return]  # a string names it


def loaded(path: str) -> Any:
    """The object that `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def text_at(path: str, document: Mapping[str, Any]) -> Any:
    """The value at a path such as `.spec.nodePool`; None where a step is missing. Raises InvalidInput for no path."""
    if not path.startswith("."):
        raise InvalidInput(f"{path!r} is no path; it begins with a dot")
    value: Any = document
    for step in path[1:].split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
