"""Plants a mutant in this process: one function is compiled from its edited source, or one constant is replaced."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any


class DoesNotFit(Exception):
    """The place that a mutant edits has changed: the mutant must be written anew."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces `old`, which the source of the place holds exactly once, by `new`.

    `place` is `module:name` below `slackwater`. A function gets the code of its edited source, so that every reference
    to it is changed. Of a constant, `old` and `new` are parts of its text, or the whole of another value.
    """

    place: str
    old: Any
    new: Any

    def plant(self) -> None:
        """Change the place in this process. Raises DoesNotFit."""
        module_name, _, name = self.place.partition(":")
        module = import_module(f"slackwater.{module_name}")
        owner, value = _found(module, name, self.place)
        function = _function_of(value)
        if function is not None:
            function.__code__ = self._compiled(function, module)
        else:
            setattr(owner, name.rpartition(".")[2], self._replaced(value))

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, str) and isinstance(self.old, str):
            return self._text(value)
        if value != self.old:
            raise DoesNotFit(f"{self.place} is {value!r}; expected {self.old!r}")
        return self.new

    def _compiled(self, function: FunctionType, module: ModuleType) -> CodeType:
        """The code of the edited function. The line numbers of its stack traces are those of the edited source."""
        source = self._text(textwrap.dedent(inspect.getsource(function)))
        body = source[source.index("def ") :]
        is_async = "async def" in source.partition("def ")[0] + "def"
        wrapped = f"from __future__ import annotations\n{'async ' if is_async else ''}{body}"
        names = function.__code__.co_freevars
        if names:  # a method with `super()`, or an inner function: compile it inside of one that has these names
            inner = textwrap.indent(wrapped.partition("\n")[2], "    ")
            given = "".join(f"    {name} = None\n" for name in names)
            wrapped = f"from __future__ import annotations\ndef outer():\n{given}{inner}"
        file = f"<mutant of {self.place}>"
        linecache.cache[file] = (len(wrapped), None, wrapped.splitlines(keepends=True), file)
        code = _code_named(compile(wrapped, file, "exec"), function.__name__)
        if code.co_freevars != names:
            raise DoesNotFit(f"{self.place}: the edited function closes over {code.co_freevars} instead of {names}")
        return code

    def _text(self, text: str) -> str:
        if not isinstance(self.old, str) or text.count(self.old) != 1:
            raise DoesNotFit(f"{self.place} does not hold {self.old!r} exactly once")
        return text.replace(self.old, str(self.new))


def _found(module: ModuleType, name: str, place: str) -> tuple[Any, Any]:
    owner: Any = None
    value: Any = module
    for part in name.split("."):
        if part not in vars(value):
            raise DoesNotFit(f"{place}: there is no {part}")
        owner, value = value, vars(value)[part]
    return owner, value


def _function_of(value: Any) -> FunctionType | None:
    """The function behind a method, a property or a decorated function; None for a constant."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def _code_named(code: CodeType, name: str) -> CodeType:
    """The code of the outermost function of this name."""
    waiting = [code]
    for current in waiting:
        inner = [one for one in current.co_consts if isinstance(one, CodeType)]
        for one in inner:
            if one.co_name == name:
                return one
        waiting += inner
    raise DoesNotFit(f"the edited source defines no {name}")
