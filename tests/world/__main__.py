"""`make world`: performs seeded histories of the whole control plane, and reports seeds that violate an invariant."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HASH_SEED = "0"


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds, from --first on (default 200)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seed", type=int, help="replay one seed")
    parser.add_argument("--twice", action="store_true", help="perform --seed twice, which must give one hash")
    parser.add_argument("--twice-each", type=int, default=0, metavar="N", help="perform each Nth seed twice")
    parser.add_argument("--plan-file", type=Path, metavar="FILE", help="replay a plan that --plan or --shrink wrote")
    parser.add_argument("--until", type=int, metavar="STEP", help="stop at this step of the record")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write the record of --seed as lines of JSON")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write the timeline of --seed, or of one mutant's finding, as one page",
    )
    parser.add_argument(
        "--last", type=int, default=30, metavar="STEPS", help="steps of a printed timeline (default 30)"
    )
    parser.add_argument("--shrink", action="store_true", help="find a smaller plan that violates what --seed violates")
    parser.add_argument("--tries", type=int, help="the most runs of --shrink (300), of each mutant (200)")
    parser.add_argument("--minutes", type=float, default=10.0, help="the longest --shrink (default 10)")
    parser.add_argument("--smallest", type=Path, metavar="FILE", help="where --shrink writes the smallest plan")
    parser.add_argument("--regressions", action="store_true", help="perform tests/world/regressions")
    parser.add_argument("--plan", action="store_true", help="print the plan of --seed and perform nothing")
    parser.add_argument("--logs", action="store_true", help="show the log lines of the services of --seed")
    parser.add_argument("--nodes", type=int, help="the most nodes of a seed (default 10; of mutants: their own)")
    parser.add_argument("--seconds", type=float, help="virtual seconds of a seed (default 600; of mutants: their own)")
    parser.add_argument("--quotas", action="store_true", help="seeds of a world of quotas alone, on scripted nodes")
    parser.add_argument("--moves", action="store_true", help="seeds of a world of moves: descheduler and migration")
    parser.add_argument("--workers", type=int, default=2, help="seeds at a time (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome of each seed as a line of JSON")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="find wrong versions of the product, all or some")
    options = parser.parse_args(arguments)
    if options.mutants is None:
        options.nodes, options.seconds = options.nodes or 10, options.seconds or 600.0
    options.tries = options.tries or (300 if options.mutants is None else 200)
    return options


def main() -> int:
    """Returns 0 if every seed held, 1 otherwise."""
    options = parsed(sys.argv[1:])
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # the order of sets of strings must not differ between two runs
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.world", *sys.argv[1:]])  # noqa: S606 - this program again
    from tests.world.campaign import campaign
    from tests.world.regressions import perform_all
    from tests.world.replay import replay

    if options.mutants is not None:
        from tests.world.mutants.find import find_all

        return find_all(options)
    if options.regressions:
        return perform_all()
    return campaign(options) if options.seed is None and options.plan_file is None else replay(options)


if __name__ == "__main__":
    sys.exit(main())
