"""What became of one conformance case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Case = Mapping[str, Any]
Word = Literal["pass", "differ", "not covered", "FAIL"]
WORDS: tuple[Word, ...] = ("pass", "differ", "not covered", "FAIL")
_PROSE = ("why", "note", "derivation")
_ROWS = "docs/differences.md: "
DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"


@dataclass(frozen=True)
class Verdict:
    """`why` is what was compared, the anchor of the difference, or what is not built."""

    word: Word
    why: str = ""

    @property
    def anchors(self) -> tuple[str, ...]:
        """Of a case that differs: the rows of docs/differences.md."""
        return tuple(self.why.removeprefix(_ROWS).split(", ")) if self.word == "differ" else ()


Adaptor = Callable[[Case], Verdict]


def compare(got: object, want: object, *, relative: float = 0.0) -> Verdict:
    """Equal, numbers within `relative`; anything else fails."""
    if _equal(got, want, relative):
        return Verdict("pass")
    return Verdict("FAIL", f"got {got!r}, want {want!r}")


def differ(*anchors: str) -> Verdict:
    """On purpose; fails unless docs/differences.md has each anchor, with the reason."""
    unwritten = [anchor for anchor in anchors if anchor not in written_differences()]
    if unwritten:
        return Verdict("FAIL", f"differs on purpose, but docs/differences.md has no row {', '.join(unwritten)}")
    return Verdict("differ", f"{_ROWS}{', '.join(anchors)}")


def not_covered(what: str) -> Verdict:
    return Verdict("not covered", what)


def written_differences() -> set[str]:
    """The anchors in the first column of the table in docs/differences.md."""
    return set(re.findall(r"^\| `([a-z0-9-]+)` \|", DIFFERENCES.read_text(), re.MULTILINE))


def tolerance(case: Case, default: float = 1e-9) -> float:
    """The relative tolerance that a case asks for; one that is no small number is not one."""
    given = case.get("tol")
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return float(given) if is_number and 0 <= given <= 1 else default


def wanted(case: Case) -> Any:
    """The answer to reach: the peer's, with what is correct in its place where the peer's is a known quirk."""
    peers = next((case[name] for name in ("want", "out", "expect") if name in case), None)
    correct = case.get("correct")
    if not isinstance(correct, Mapping) or not isinstance(peers, Mapping):
        return peers if correct is None else correct
    return {**peers, **{key: value for key, value in correct.items() if key not in _PROSE}}


def _equal(got: object, want: object, relative: float) -> bool:
    if isinstance(got, bool) or isinstance(want, bool):
        return got is want
    if isinstance(got, int | float) and isinstance(want, int | float):
        return _near(got, want, relative)
    if isinstance(got, list | tuple) and isinstance(want, list | tuple):
        return len(got) == len(want) and all(_equal(a, b, relative) for a, b in zip(got, want, strict=True))
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        return got.keys() == want.keys() and all(_equal(got[key], want[key], relative) for key in want)
    return got == want


def _near(got: float, want: float, relative: float) -> bool:
    """A whole number beyond what a float holds is near nothing but itself."""
    try:
        return got == want or abs(got - want) <= relative * max(abs(got), abs(want))
    except OverflowError:
        return False
