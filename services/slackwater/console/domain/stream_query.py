"""The filter of a stream reader: types and nodes by pattern, and the start position."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from slackwater.model.errors import InvalidInput

MOST_PATTERNS = 50
LONGEST_TOKEN = 1000
_PLACE = re.compile(r"([A-Z][A-Z0-9_]*):(\d{1,19})", re.ASCII)
_GLOB = re.compile(r"[*?\[]")


def split(values: Sequence[str] | None, field: str) -> tuple[str, ...]:
    """The patterns in `a,b` or in `a`, `b`. Raises InvalidInput for too many patterns."""
    found = tuple(dict.fromkeys(part for value in values or () for raw in value.split(",") if (part := raw.strip())))
    if len(found) > MOST_PATTERNS:
        raise InvalidInput(f"{field}: {len(found)} patterns are too many; give at most {MOST_PATTERNS}", field=field)
    return found


def chosen(patterns: Sequence[str], known: Sequence[str], by_request: Sequence[str]) -> tuple[str, ...]:
    """The types that any pattern matches; without a pattern, or with `*`, all except those given only `by_request`.

    Raises: InvalidInput for a pattern that matches no type.
    """
    usual = tuple(name for name in known if name not in by_request)
    types: set[str] = set()
    for pattern in patterns or ("*",):
        named = usual if pattern == "*" else [name for name in known if fnmatchcase(name, pattern)]
        if not named:
            raise InvalidInput(
                f"types: {pattern!r} names no event type; allowed: {', '.join(known)}, "
                "or patterns of them such as decision.*",
                code="unknown_event_type",
                field="types",
            )
        types.update(named)
    return tuple(name for name in known if name in types)


def names_of(patterns: Sequence[str]) -> tuple[str, ...]:
    """The nodes to request from the broker; empty for all nodes, because a pattern may match any.

    A `/` separates the parts of a key: no node has one in its name, and the broker would refuse the resulting subject.
    """
    if any(_GLOB.search(pattern) for pattern in patterns):
        return ()
    return tuple(pattern for pattern in patterns if "/" not in pattern)


def matches(node: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches the node; no pattern matches every node."""
    return not patterns or any(fnmatchcase(node, pattern) or node == pattern for pattern in patterns)


def token_of(positions: Mapping[str, int]) -> str:
    """Positions as one event id, such as `DECISIONS:123,STATE:45`."""
    return ",".join(f"{stream}:{position}" for stream, position in sorted(positions.items()))


def positions_of(token: str, field: str) -> dict[str, int]:
    """The positions in an event id. Raises InvalidInput for a malformed id."""
    positions: dict[str, int] = {}
    for part in token.split(",") if len(token) <= LONGEST_TOKEN else ("",):
        place = _PLACE.fullmatch(part.strip())
        if place is None:
            raise InvalidInput(
                f"{field}: {token[:80]!r} is not a position of this stream; allowed: the id of a received event, "
                "such as DECISIONS:123,STATE:45, or nothing to begin now",
                code="invalid_position",
                field=field,
            )
        positions[place[1]] = int(place[2])
    return positions
