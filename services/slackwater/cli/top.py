"""`slackwater top`: the current usage of nodes, workloads or pods, refreshed in a terminal."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.complete import complete_node, complete_pool
from slackwater.cli.list_kinds import kind_of
from slackwater.cli.list_reader import as_recorded, whole
from slackwater.cli.output import Item, errors_to_stderr, message, table
from slackwater.cli.selection import parse_selector, sort_items
from slackwater.cli.top_rows import COLUMNS, screen, summary
from slackwater.model.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from slackwater.cli.client import Reader
    from slackwater.resources.selectors import Selector

_OPEN, _CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""To the alternate screen without a cursor, and back."""
_SLICE_SECONDS = 0.5
_HOME, _LINE_END, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class TopKind(StrEnum):
    """What to list."""

    NODES = "nodes"
    WORKLOADS = "workloads"
    PODS = "pods"


_ALIASES = {name: kind for kind in TopKind for name in kind_of(kind.value).names}


@dataclass(frozen=True, slots=True)
class TopView:
    """What to show: a kind, filters and an order."""

    kind: TopKind
    filters: dict[str, str]
    labels: Selector | None
    order: str


def complete_kind(begun: str) -> list[str]:
    """The kinds with this prefix, for shell completion."""
    return [kind.value for kind in TopKind if kind.value.startswith(begun)]


def command(
    what: Annotated[
        str, typer.Argument(metavar="KIND", help="nodes, workloads or pods", autocompletion=complete_kind)
    ] = TopKind.NODES.value,
    once: Annotated[bool, typer.Option("--once", help="print once; so is done when the output is no terminal")] = False,
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="seconds between two reads")] = 2.0,
    sort_by: Annotated[
        str, typer.Option("--sort-by", help="a column, or a path like .usage.cpu_milli; -COLUMN: descending")
    ] = "-cpu",
    selector: Annotated[
        str | None, typer.Option("-l", "--selector", help="nodes, pods: only with these labels, as kubectl takes them")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="workloads, pods: only of this node", autocompletion=complete_node)
    ] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="only of this pool", autocompletion=complete_pool)] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="omit the header")] = False,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Show current CPU and memory of nodes, workloads or pods, those with the most CPU first. Percentages are of the
    capacity of nodes, and of the requests of workloads and pods. In a terminal it refreshes until `q` or Ctrl-C.

    Examples: `slackwater top`, `slackwater top workloads --pool edge`, `slackwater top pods --node edge-7 --once`
    """
    from slackwater.cli.client import reading

    with errors_to_stderr():
        view = TopView(_kind(what), _filters(what, node, pool), _labels(what, selector), sort_by)
        sort_items([], COLUMNS[view.kind], sort_by)
        with reading(server) as reader:
            if once or not reader.live or not sys.stdout.isatty():
                _print_once(reader, view, headers=not no_headers)
            else:
                _refresh(reader, view, interval)


def _kind(what: str) -> TopKind:
    kind = _ALIASES.get(what.lower())
    if kind is None:
        raise InvalidInput(f"{what!r} cannot be shown; allowed: {', '.join(TopKind)}", field="what")
    return kind


def _filters(what: str, node: str | None, pool: str | None) -> dict[str, str]:
    allowed = kind_of(_kind(what).value).filters
    if node is not None and "node" not in allowed:
        raise InvalidInput(f"--node: is for workloads and pods; one node: `slackwater get node {node}`", field="node")
    return {name: value for name, value in (("node", node), ("pool", pool)) if value is not None}


def _labels(what: str, selector: str | None) -> Selector | None:
    kind = kind_of(_kind(what).value)
    if selector is not None and kind.labels is None:
        raise InvalidInput(f"--selector: {kind.names[0]} have no labels; allowed: nodes, pods", field="selector")
    return None if selector is None else parse_selector(selector)


def _items(reader: Reader, view: TopView) -> Sequence[Item]:
    kind = kind_of(view.kind.value)
    items = whole(reader, kind.path, view.filters)["items"]
    if view.labels is not None and kind.labels is not None:
        items = [item for item in items if view.labels.matches(kind.labels(item))]
    return sort_items(as_recorded(items, reader), COLUMNS[view.kind], view.order)


def _print_once(reader: Reader, view: TopView, *, headers: bool) -> None:
    items = _items(reader, view)
    if not items:
        message(f"no {view.kind} match" if view.filters or view.labels else f"no {view.kind} yet")
        return
    for line in table(items, COLUMNS[view.kind], wide=True, headers=headers):
        print(line, flush=True)


def _refresh(reader: Reader, view: TopView, interval: float) -> None:
    """Draw until `q` or Ctrl-C. While the server does not answer, the last rows stay under its error."""
    from slackwater.model.time import SystemClock

    clock, head, items = SystemClock(), "", _items(reader, view)
    with _terminal(), contextlib.suppress(KeyboardInterrupt), _interrupts() as interrupts:
        while True:
            try:
                items = _items(reader, view)
                nodes = items if view.kind is TopKind.NODES else whole(reader, "/v1/nodes")["items"]
                head = summary(nodes, clock.now())
            except Unavailable as error:
                head = f"{clock.now():%H:%M:%SZ}  {error.message}"
            size = os.get_terminal_size(sys.stdout.fileno())  # not COLUMNS, which an exporting shell leaves behind
            _draw(screen(head, items, COLUMNS[view.kind], size.columns, size.lines))
            if _wants_to_quit(interval, interrupts):
                return


def _draw(lines: Sequence[str]) -> None:
    """Overwrites the screen line by line, because clearing it first would flicker."""
    sys.stdout.write(_HOME + "\r\n".join(line + _LINE_END for line in lines) + _BELOW)
    sys.stdout.flush()


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """The alternate screen, with keys delivered one by one and not shown; both are restored."""
    import termios
    import tty

    keys = sys.stdin.fileno() if sys.stdin.isatty() else None
    before = None if keys is None else termios.tcgetattr(keys)
    sys.stdout.write(_OPEN)
    try:
        if keys is not None:
            tty.setcbreak(keys)
        yield
    finally:
        if keys is not None and before is not None:
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
        sys.stdout.write(_CLOSE)
        sys.stdout.flush()


class _Interrupts:
    """Whether Ctrl-C was pressed: an exception alone may be lost, where it is raised in a finalizer."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, _signal: int, _frame: object) -> None:
        self.asked = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def _interrupts() -> Iterator[_Interrupts]:
    import signal

    interrupts = _Interrupts()
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _wants_to_quit(seconds: float, interrupts: _Interrupts) -> bool:
    """Wait this long for a key; returns whether it was `q`, or Ctrl-C. Other keys refresh at once.

    Waits in slices, because a Ctrl-C that arrives just before `select` blocks is only noticed after it.
    """
    import time

    until = time.monotonic() + seconds
    has_keys = sys.stdin.isatty()
    while (left := until - time.monotonic()) > 0:
        if interrupts.asked:
            return True
        if not has_keys:
            time.sleep(min(left, _SLICE_SECONDS))
            continue
        ready, _, _ = select.select([sys.stdin], [], [], min(left, _SLICE_SECONDS))
        if ready:
            return sys.stdin.read(1) in ("q", "Q")
    return False
