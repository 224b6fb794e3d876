"""Python sources as the rules see them: where a file stands, and what it imports. Parsed, never imported."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
SKIPPED = frozenset({".git", ".venv", ".slackwater", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


@dataclass(frozen=True)
class Source:
    """One file; `path` is relative to the root of the checkout."""

    path: PurePosixPath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def root(self) -> str:
        """`services`, `libs`, `tests`, …"""
        return self.path.parts[0]

    @property
    def part(self) -> str:
        """The service or library: `services/slackwater/<part>/…`; empty elsewhere."""
        return self.path.parts[2] if self.root in {"services", "libs"} and len(self.path.parts) > 3 else ""

    @property
    def room(self) -> str:
        """`domain`, `adapters`, … or the name of a module directly in the service."""
        return self.path.parts[3].removesuffix(".py") if self.part else ""

    @property
    def module(self) -> str:
        return ".".join(self.path.with_suffix("").parts[1:]).removesuffix(".__init__")

    @cached_property
    def imports(self) -> tuple[str, ...]:
        """Every module imported anywhere in the file, also inside functions and under TYPE_CHECKING.

        `from a import b` gives `a.b`: b may be a module, and a rule that asks for `a` matches it too.
        """
        return tuple(_imports(self))

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """Every string constant: modules are also reached by name."""
        return tuple(n.value for n in ast.walk(self.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def _imports(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative: none are written here, but a rule must not be passed by one
                package = source.module.split(".")
                package = package if source.path.name == "__init__.py" else package[:-1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(module: str, package: str) -> bool:
    """Whether `module` is `package` or below it."""
    return module == package or module.startswith(package + ".")


@cache
def tracked() -> Sequence[PurePosixPath]:
    """Files of the repository; where there is no git, every file that a checkout would have."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found = [PurePosixPath(name) for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = [PurePosixPath(path.relative_to(ROOT).as_posix()) for path in ROOT.rglob("*")]
    return [path for path in found if not SKIPPED & set(path.parts) and (ROOT / path).is_file()]


@cache
def source(path: PurePosixPath) -> Source:
    """A file, read and parsed once for all rules."""
    return Source(path, (ROOT / path).read_text())


@cache
def sources(*roots: str) -> Sequence[Source]:
    """The Python files below these roots."""
    return [source(path) for path in tracked() if path.suffix == ".py" and path.parts[0] in roots]


def forget_sources() -> None:
    """Give up everything that was read and parsed."""
    for cached in (tracked, source, sources):
        cached.cache_clear()
