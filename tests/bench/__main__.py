"""`make bench`: runs the figures below a guardian that removes everything they leave; see tests.bench.runner."""

from __future__ import annotations

import sys

from tests.support.guardian import guarded

if __name__ == "__main__":
    sys.exit(guarded("bench", [sys.executable, "-m", "tests.bench.runner", *sys.argv[1:]]))
