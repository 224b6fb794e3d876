"""Follows every link of every page of a console, and comes to an end: links are told apart by their shape.

A page of a decision, a node or a pod leads to further ones, and a running instance adds some each second, so that the
set of addresses has no end. The set of shapes has: an address with its names, ids, times and cursors left out.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

EXAMPLES = 2
"""Addresses of one shape that are opened."""
_NAMED = re.compile(r"^/((?:v1/)?(?:nodes|decisions|deadletters|pods|workloads|demo/pictures|resources/[^/]+))/[^/]+")
"""Pages of one thing; what stands behind its name is part of the shape."""
_CHOICES = frozenset({"span", "resource", "subject", "show", "spared", "steps", "throttled", "tier", "type"})
"""Parameters with a few values, each of which is a page of its own; so is each order of a list without a filter."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What an address answered, and the links of its page as absolute addresses."""

    status: int
    links: Iterable[str] = ()


def shape_of(url: str) -> str:
    """The address without what tells one node, decision or moment from another."""
    parts = urlsplit(url)
    path = _NAMED.sub(r"/\1/*", parts.path)
    given = sorted(parse_qsl(parts.query))
    choices = _CHOICES | ({"sort"} if len(given) == 1 else set())
    query = [f"{name}={value if name in choices else '*'}" for name, value in given]
    return f"{path}?{'&'.join(query)}" if query else path


def crawl(start: Iterable[str], open_page: Callable[[str], Opened]) -> Mapping[str, list[tuple[str, int]]]:
    """By shape: the addresses that were opened, with their status. Every shape that a page links to is in it."""
    waiting = deque(start)
    queued = set(waiting)
    opened: dict[str, list[tuple[str, int]]] = defaultdict(list)
    while waiting:
        url = waiting.popleft()
        examples = opened[shape_of(url)]
        if len(examples) == EXAMPLES:
            continue
        answer = open_page(url)
        examples.append((url, answer.status))
        links = set(answer.links) - queued
        queued |= links
        waiting.extend(sorted(links))
    return opened
