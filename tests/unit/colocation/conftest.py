"""The tests of `colocation` share helpers with those of `offers`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "offers"))
