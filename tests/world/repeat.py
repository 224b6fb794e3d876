"""The process in which a seed is performed a second time (see tests.world.twice)."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence

_GARBAGE = 50_000


def main(arguments: Sequence[str]) -> int:
    """Perform a seed with garbage in memory and print its hash."""
    garbage = _litter(int(arguments[0]))
    from tests.world.campaign import outcome_of, prepare  # after the garbage, so that all of it lies elsewhere
    from tests.world.run import Wanted

    prepare()
    options = argparse.Namespace(
        nodes=int(arguments[1]),
        seconds=float(arguments[2]),
        quotas="quotas" in arguments[3:],
        moves="moves" in arguments[3:],
    )
    outcome = outcome_of(int(arguments[0]), options, Wanted())
    sys.stdout.write(f"{outcome.digest}\n")
    sys.stdout.flush()
    os._exit(0 if garbage else 1)  # the coroutines of crashed processes must not run their `finally` blocks


def _litter(seed: int) -> list[object]:
    """Objects of many sizes, of which every second is freed again: later ones get their places."""
    rng = random.Random(f"garbage of {seed}")
    objects: list[object] = [bytearray(rng.randrange(1, 512)) for _ in range(_GARBAGE)]
    objects += [{number: [number]} for number in range(_GARBAGE)]
    del objects[:: rng.choice((2, 3))]
    return objects
