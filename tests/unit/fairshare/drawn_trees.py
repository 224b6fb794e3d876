"""Quota trees drawn by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from slackwater.fairshare.tree import ROOT, Quota

RESOURCES = ("cpu", "memory")
AMOUNT = st.one_of(st.integers(0, 12), st.integers(0, 200_000), st.integers(0, 2**45))


def _amounts(draw: Any, keys: tuple[str, ...]) -> dict[str, int]:
    return {key: draw(AMOUNT) for key in keys}


@st.composite
def trees(draw: st.DrawFn, size: int = 9) -> list[Quota]:
    """Up to `size` quotas in up to `size` levels: min <= max, and no resource that the parent does not name."""
    names = [f"q{number}" for number in range(draw(st.integers(1, size)))]
    found: list[Quota] = []
    keys_of: dict[str, tuple[str, ...]] = {ROOT: RESOURCES}
    for place, name in enumerate(names):
        parent = draw(st.sampled_from([ROOT, *names[:place]]))
        keys = keys_of[name] = keys_of[parent] if draw(st.booleans()) else keys_of[parent][:1]
        minimum = _amounts(draw, keys)
        maximum = {key: minimum[key] + draw(AMOUNT) for key in keys}
        found.append(
            Quota(
                name=name,
                parent=parent,
                minimum=minimum,
                maximum=maximum,
                weight=_amounts(draw, keys) if draw(st.booleans()) else {},
                lends=draw(st.booleans()),
                scales=draw(st.sampled_from([True, True, False])),
                own_request=_amounts(draw, keys),
            )
        )
    return found


@st.composite
def totals(draw: st.DrawFn) -> dict[str, int]:
    return {key: draw(AMOUNT) for key in RESOURCES}
