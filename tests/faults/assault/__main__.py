"""One attack: `python -m tests.faults.assault NAME --aim JSON`. Prints `ready`, waits for a line, prints its counts."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.faults.assault import connections, documents, messages
from tests.faults.assault.attacker import Aim, Counts, lower_weight

ATTACKS: Final[Mapping[str, Callable[[Aim], Callable[[Counts], None]]]] = {
    "invalid items": messages.invalid_items,
    "deep and wide": messages.deep_and_wide,
    "packed bombs": messages.packed_bombs,
    "flood": messages.floods,
    "full streams": messages.fills,
    "forged": messages.forges,
    "connections": connections.connects,
    "half requests": connections.stalls,
    "documents": documents.expands,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.faults.assault", description=__doc__)
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("--aim", required=True, help="JSON of tests.faults.assault.attacker.Aim")
    options = parser.parse_args()
    given: dict[str, Any] = json.loads(options.aim)
    lower_weight()
    run = ATTACKS[options.name](Aim(**{**given, "credentials_file": Path(given["credentials_file"])}))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    counts, before = Counts(), _cpu_seconds()
    run(counts)
    found = {"sent": counts.sent, "bytes": counts.bytes, "answers": counts.answers,
             "cpu_seconds": _cpu_seconds() - before}  # fmt: skip
    sys.stdout.write(json.dumps(found) + "\n")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
