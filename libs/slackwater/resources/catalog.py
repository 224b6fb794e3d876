"""Every resource kind: the declarations in slackwater.resources.kinds.

REST routes, the command line, reference pages and tests are made of these.

Models, cells and hooks are named by strings, which are loaded when they are needed: no declaration imports a service.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from slackwater.model.close_names import closest
from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.resources import kinds
from slackwater.resources.kind import Kind


def declared_kinds(folders: Iterable[str], package: str = kinds.__name__) -> Sequence[Kind]:
    """The kinds that the modules of a package declare, by name of the module. Raises Misconfigured for two kinds with
    a name in common."""
    modules = [import_module(f"{package}.{name}") for name in sorted(found.name for found in iter_modules(folders))]
    declared = [kind for module in modules for kind in vars(module).values() if isinstance(kind, Kind)]
    taken: dict[str, Kind] = {}
    for kind in declared:
        for name in kind.names:
            if taken.setdefault(name, kind) is not kind:
                raise Misconfigured(f"resource kinds {taken[name].name} and {kind.name}: both are called {name!r}")
    return tuple(declared)


KINDS: Final[Sequence[Kind]] = declared_kinds(kinds.__path__)
"""In the order of lists and help."""


def kinds_of(service: str) -> Sequence[Kind]:
    """The kinds that a service serves."""
    return tuple(kind for kind in KINDS if kind.service == service)


def kind_named(name: str) -> Kind:
    """The kind of a document's `kind`. Raises InvalidInput that lists all."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    names = [kind.name for kind in KINDS]
    close = closest(name, names)
    hint = f"did you mean {close}? " if close else ""
    raise InvalidInput(f"kind: {name!r} is no resource kind; {hint}allowed: {', '.join(names)}", field="kind")
