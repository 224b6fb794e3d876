"""Subjects and their wildcards."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=65536)
def matches(pattern: str, subject: str) -> bool:
    """Returns whether a subject matches a filter with `*` and `>`."""
    if pattern == subject:
        return True
    expected, tokens = pattern.split("."), subject.split(".")
    for position, part in enumerate(expected):
        if part == ">":
            return len(tokens) > position
        if position >= len(tokens) or part not in ("*", tokens[position]):
            return False
    return len(expected) == len(tokens)


@lru_cache(maxsize=65536)
def matches_any(patterns: tuple[str, ...], subject: str) -> bool:
    """Returns whether a subject matches one of the filters; with no filter, every subject does."""
    return not patterns or any(matches(pattern, subject) for pattern in patterns)
