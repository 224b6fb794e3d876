"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass

from tests.world.mutants.plant import Edit


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong version. `expected` are the invariants of which any may find it first.

    `mended` is the commit that mended this defect when it was in the product; empty for an invented one. `seed` is the
    one that found it last, or the name of a written plan in `plans`, and is tried first. `hole` says why no seed
    finds it: such a mutant is listed and not run. `tests` are files below `tests` that find it instead of a seed, for
    guards that the simulated world lacks: its broker has no accounts, its processes have no sockets and no files of
    other users.
    """

    name: str
    wrong: str
    edits: tuple[Edit, ...]
    expected: tuple[str, ...] = ()
    seed: int | str | None = None
    mended: str = ""
    hole: str = ""
    tests: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """Seeds whose plans have all of these faults are tried first: only they can show the mutant. `a|b` is one of
    both, `a@agent` one that meets an agent."""
    size: tuple[int, float] = (2, 150.0)
    """Nodes and virtual seconds, unless the command line says others."""
    skewed: bool = False
    """Seeds in which the clocks of replicas differ by seconds are tried first."""
    quotas: bool = False
    """Its seeds are of a world of quotas alone."""
    moves: bool = False
    """Its seeds are of a world of moves."""
    evicts: bool = False
    """Seeds whose plans allow evictions are tried first."""

    def plant(self) -> None:
        """Change this process. Raises DoesNotFit."""
        for edit in self.edits:
            edit.plant()


def guard(name: str, wrong: str, place: str, old: str, new: str, *tests: str) -> Mutant:
    """Returns a mutant of one edit that these tests find."""
    return Mutant(name, wrong, (Edit(place, old, new),), tests=tests)
