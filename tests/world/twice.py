"""Performs a seed a second time under another state of the interpreter, which must not change its hash.

The second run is a process of its own: another PYTHONHASHSEED gives sets of strings another order, and garbage in its
memory gives objects other addresses, so that whatever iterates by `hash` or `id` takes another order.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.world.run import Outcome

_RUN = "from tests.world.repeat import main; import sys; sys.exit(main(sys.argv[1:]))"


def differs(outcome: Outcome, options: argparse.Namespace) -> str:
    """Returns how the second run of a seed differs; empty if it does not."""
    again = _run_again(outcome.seed, options)
    if again == outcome.digest:
        return ""
    return f"the same history again: the hash is {again}, it was {outcome.digest}"


def _run_again(seed: int, options: argparse.Namespace) -> str:
    command = [sys.executable, "-c", _RUN, str(seed), str(options.nodes), str(options.seconds)]
    command += ["quotas"] if options.quotas else []
    command += ["moves"] if options.moves else []
    environment = {**os.environ, "PYTHONHASHSEED": str(seed % 4_000_000_000 + 1)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    lines = done.stdout.splitlines()
    return lines[-1] if done.returncode == 0 and lines else f"missing, because the run ended: {done.stderr[-2000:]}"
