"""`make faults`: runs the scenarios below a guardian that removes everything they leave; see tests.faults.runner."""

from __future__ import annotations

import sys

from tests.support.guardian import guarded

if __name__ == "__main__":
    sys.exit(guarded("faults", [sys.executable, "-m", "tests.faults.runner", *sys.argv[1:]]))
