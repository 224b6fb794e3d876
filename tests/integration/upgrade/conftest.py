"""Services run as in the tests of the quarantine."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "quarantine"):
    sys.path.insert(0, str(folder))
