"""Prints the progress of a run: one line per event and, on a terminal, a status line below that is updated."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.status import Status

from slackwater.demo.reaction import PressureSample
from slackwater.model.quantities import format_cpu, format_memory
from slackwater.runtime.state import Endpoint

_ONE_BY_ONE = 2
_NOT_CARRIED_OUT: Final = {
    "observed_only": " [observe mode: not carried out]",
    "left_to_weights": " [left to CPU weights: not carried out]",
}


@dataclass(slots=True)
class Narrator:
    """Prints events and the status line; without a terminal the status is a line every few seconds."""

    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    every_seconds: float = 5.0
    began: float = field(default_factory=time.monotonic)
    _status: Status | None = None
    _last_line: float = 0.0

    def __enter__(self) -> Narrator:
        if self.console.is_terminal:
            self._status = self.console.status("starting")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def write_line(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        self.console.print(f"{time.monotonic() - self.began:6.1f} s  {text}", markup=False)

    def now(self, doing: str, pressure: PressureSample | None, limits: Mapping[str, int | None]) -> None:
        """Show the current state; a terminal replaces the previous one."""
        parts = [doing]
        if pressure is not None:
            parts.append(f"prod pressure {pressure.some:.2f}")
        parts.extend(limits_words(limits))
        text = ", ".join(parts)
        if self._status is not None:
            self._status.update(f"{time.monotonic() - self.began:6.1f} s  {text}")
        elif time.monotonic() - self._last_line >= self.every_seconds:
            self._last_line = time.monotonic()
            self.write_line(text)

    def greet(self, endpoint: Endpoint, node: str, setting: str = "") -> None:
        """Print the URL of the console and example commands, each with `setting` before it."""
        self.write_line(f"console: {endpoint.http_url}/")
        for command in (f"why node/{node} batch-cpu", "get decisions", "why decision/ID"):
            self.write_line(f"try: {setting}slackwater {command}")

    def decision(self, item: Mapping[str, Any], pressure: PressureSample | None, waterline: float | None) -> None:
        """Print a decision: its actions, the reading that triggered it, and its id."""
        because = ""
        if pressure is not None and waterline is not None:
            because = f" (prod pressure {pressure.some:.2f}, waterline {waterline:.2f})"
        mode = _NOT_CARRIED_OUT.get(item["reason"].partition("_")[2], "")
        for what in actions_words(item["actions"]):
            self.write_line(f"{item['kind']} {what}{because}{mode}, decision {item['id']}")


def actions_words(actions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The actions as text: a line per pod, or one line for all of them if there are many."""

    def change(before: int | None, after: int | None) -> str:
        return f"{limit_words(before)} -> {limit_words(after)}"

    of_memory = [action for action in actions if action.get("memory")]
    if of_memory:
        return [f"{action['tier']}/{action['pod_name']} {_memory_change(action['memory'])}" for action in of_memory]
    limits = [(action["cpu_limit_before_milli"], action["cpu_limit_after_milli"]) for action in actions]
    if len(actions) <= _ONE_BY_ONE:
        return [
            f"{action['tier']}/{action['pod_name']} {change(*limit)}"
            for action, limit in zip(actions, limits, strict=True)
        ]
    before, after = (_sum(list(side)) for side in zip(*limits, strict=True))
    return [f"{len(actions)} {actions[0]['tier']} pods {change(before, after)} in total"]


def _memory_change(limit: Mapping[str, Any]) -> str:
    before, after = (
        "unlimited" if limit[name] is None else format_memory(limit[name]) for name in ("before_bytes", "after_bytes")
    )
    return f"memory {before} -> {after}"


def limits_words(limits: Mapping[str, int | None]) -> list[str]:
    """The CPU limits of the batch pods as text: per pod, or their sum if there are many."""
    if len(limits) <= _ONE_BY_ONE:
        return [f"batch/{pod} {limit_words(limit)}" for pod, limit in limits.items()]
    return [f"{len(limits)} batch pods {limit_words(_sum(list(limits.values())))} in total"]


def _sum(limits: Sequence[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return sum(known) if len(known) == len(limits) else None


def limit_words(limit_milli: int | None) -> str:
    """A CPU limit as text."""
    return "unlimited" if limit_milli is None else f"{format_cpu(limit_milli)} CPU"
