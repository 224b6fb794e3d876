"""Names in docstrings, resolved to modules and to what these define."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sources import Source

_DOTTED = re.compile(r"(?<![\w./-])slackwater((?:\.\w+)+)(?![\w/-])")
"""Not labels and API groups (`slackwater.io/…`), schemas (`slackwater.simulation/1`) and RPCs, which have a slash."""
_QUOTED = re.compile(r"`([a-z]\w*(?:\.\w+)*)(?:\([^`]*\))?`")
_DOUBLED = re.compile(r"(?<![\w.`/-])([a-z]+)\s+\1(?![\w`/=-])")
_CODE = re.compile(r"`[^`]*`")

Definitions = Mapping[str, Mapping[str, frozenset[str]]]


@dataclass(frozen=True)
class Tree:
    """Modules of all packages with the names that each defines, and of each class its members."""

    modules: Definitions
    packages: frozenset[str]
    others: frozenset[str] = field(default_factory=frozenset)
    """Dotted names that are no modules: events, groups of entry points."""

    def has(self, name: str) -> bool:
        """Returns whether a dotted name is a package, a module, a definition or a member of a class."""
        if name in self.packages or name in self.modules or name in self.others:
            return True
        parent, _, last = name.rpartition(".")
        if last in self.modules.get(parent, {}):
            return True
        module, _, owner = parent.rpartition(".")
        return last in self.modules.get(module, {}).get(owner, ())

    def defines(self, package: str, name: str) -> bool:
        """Returns whether any module of a package, or its own code, has a definition of this name."""
        return any(
            name in names or any(name in members for members in names.values())
            for module, names in self.modules.items()
            if module == package or module.startswith(f"{package}.")
        )


def read_tree(sources: Iterable[Source], others: Iterable[str] = ()) -> Tree:
    modules = {source.module: _definitions(source.tree) for source in sources}
    packages = {".".join(parts[:end]) for name in modules if (parts := name.split(".")) for end in range(1, len(parts))}
    return Tree(modules, frozenset(packages), frozenset(others))


def _definitions(tree: ast.Module) -> Mapping[str, frozenset[str]]:
    definitions = {name: frozenset[str]() for statement in tree.body for name in _bound(statement)}
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            definitions[statement.name] = frozenset(name for member in statement.body for name in _bound(member))
    return definitions


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement binds, also below `if` and `try`."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    else:
        yield from (
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )


def docstrings(source: Source) -> Iterator[str]:
    """Docstrings of module, classes and functions, and the texts below fields and constants."""
    blocks: list[ast.AST] = [source.tree]
    while blocks:
        for statement in getattr(blocks.pop(), "body", ()):
            blocks.append(statement)
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def unresolved(source: Source, tree: Tree) -> set[str]:
    """`slackwater.…` in any docstring, and quoted names in that of a package, which name nothing."""
    text = (f"slackwater{name}" for docstring in docstrings(source) for name in _DOTTED.findall(docstring))
    absent = {f"{source.module}: {name}" for name in text if not tree.has(name)}
    if source.path.name != "__init__.py":
        return absent
    quoted = _QUOTED.findall(ast.get_docstring(source.tree) or "")
    return absent | {f"{source.module}: {name}" for name in quoted if not _is_of(source, name, tree)}


def _is_of(source: Source, name: str, tree: Tree) -> bool:
    """Returns whether a name in a package's docstring is one of the package, of a library, or of its own service.

    No service imports another one, so its docstrings name none.
    """
    package, first = source.module, name.split(".")[0]
    if tree.has(name) or tree.has(f"{package}.{name}") or name == source.part:
        return True
    return "." not in name and (
        tree.defines(package, first) or (source.root == "libs" and tree.has(f"slackwater.{name}"))
    )


def repeated_words(text: str) -> list[str]:
    """Words that a text repeats by mistake. Code between backticks is none."""
    return [" ".join(match[0].split()) for match in _DOUBLED.finditer(_CODE.sub("`", text))]


def doubled_words(source: Source) -> set[str]:
    if not _DOUBLED.search(source.text):  # spares parsing
        return set()
    return {f"{source.module}: {words}" for docstring in docstrings(source) for words in repeated_words(docstring)}
