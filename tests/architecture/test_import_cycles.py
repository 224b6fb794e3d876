"""Import cycles: no module imports itself through others, not even inside a function or under TYPE_CHECKING."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from sources import Source, sources

Graph = Mapping[str, Iterable[str]]


def module_of(path: PurePosixPath) -> str:
    """As it is imported: `services` and `libs` are roots of the namespace."""
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] in {"services", "libs"} else parts
    return ".".join(parts).removesuffix(".__init__")


def graph_of(found: Sequence[Source]) -> Graph:
    """The modules that each module names in an import. `import a.b` is an edge to a.b, and to no package above it."""
    modules = {module_of(source.path): source for source in found}
    return {
        name: {target for text in source.imports if (target := _known(text, modules)) and target != name}
        for name, source in modules.items()
    }


def _known(target: str, modules: Mapping[str, Source]) -> str:
    """The longest prefix that is a module: `from a.b import c` names a.b.c, which may be an attribute of a.b."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target


def cycles(graph: Graph) -> list[set[str]]:
    """The strongly connected components of more than one module (Tarjan, with a stack of its own)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found: list[set[str]] = []
    for start in graph:
        if start in number:
            continue
        number[start] = lowest[start] = len(number)
        path.append(start)
        on_path.add(start)
        work = [(start, iter(graph[start]))]
        while work:
            module, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(graph[target])))
                    break
                if target in on_path:
                    lowest[module] = min(lowest[module], number[target])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[module])
                if lowest[module] == number[module]:
                    component = set(path[path.index(module) :])
                    del path[path.index(module) :]
                    on_path -= component
                    found += [component] if len(component) > 1 else []
    return found


def test_the_tree_has_no_import_cycle() -> None:
    found = cycles(graph_of(sources("services", "libs", "tests", "tools", "contracts")))
    assert [sorted(cycle) for cycle in found] == []


def test_a_cycle_is_found_wherever_the_import_stands() -> None:
    planted = {
        "libs/slackwater/a.py": "def f():\n    from slackwater.b import g",
        "libs/slackwater/b/__init__.py": "from slackwater.c.inner import h",
        "services/slackwater/c/inner.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import slackwater.a"
        ),
        "libs/slackwater/d.py": "from slackwater import a\nfrom slackwater.d import own",
    }
    graph = graph_of([Source(PurePosixPath(path), text) for path, text in planted.items()])
    assert cycles(graph) == [{"slackwater.a", "slackwater.b", "slackwater.c.inner"}]


def test_a_cycle_does_not_hold_the_modules_behind_it() -> None:
    graph = {"a": "b", "b": "ac", "c": "d", "d": "ec", "e": "f", "f": "", "g": "g"}
    assert sorted(sorted(cycle) for cycle in cycles(graph)) == [["a", "b"], ["c", "d"]]
