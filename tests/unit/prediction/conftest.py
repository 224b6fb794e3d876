"""The tests of `prediction` share helpers with those of `peaks`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "peaks"))
