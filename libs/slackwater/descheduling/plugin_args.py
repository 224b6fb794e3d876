"""Arguments of plugins, as a profile gives them by name. What a plugin does not take is refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slackwater.descheduling.profile import PluginArgs
from slackwater.model.errors import InvalidInput


class ArgsReader:
    """Reads the arguments of one plugin. Every method raises InvalidInput for a value of another type."""

    def __init__(self, plugin: str, args: PluginArgs, allowed: Collection[str]) -> None:
        """Raises InvalidInput for an argument that is not in `allowed`."""
        self._plugin = plugin
        self._args = args
        for name in args:
            if name not in allowed:
                raise self._refusal(name, f"is no argument; allowed: {', '.join(sorted(allowed)) or 'none'}")

    def number(self, name: str, default: float | None = None, *, least: float = 0.0) -> float:
        """Returns a number of at least `least`; it is required where there is no default."""
        value = self._args.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
            raise self._refusal(name, f"must be a number of at least {least:g}; got {value!r}")
        return float(value)

    def flag(self, name: str) -> bool:
        """Returns whether the argument is true; false by default."""
        value = self._args.get(name, False)
        if not isinstance(value, bool):
            raise self._refusal(name, f"must be true or false; got {value!r}")
        return value

    def names(self, name: str) -> frozenset[str]:
        """Returns a list of texts; empty by default."""
        value = self._args.get(name, ())
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
            raise self._refusal(name, f"must be a list of texts; got {value!r}")
        return frozenset(value)

    def _refusal(self, name: str, problem: str) -> InvalidInput:
        return InvalidInput(f"spec.plugins: {self._plugin}: args.{name} {problem}", field="spec.plugins")
